import { historyList, type LicenceDetail } from '../../api/licences.ts'
import { Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { PagedTable } from '../../parts/table.tsx'
import { None, Time, words } from '../../parts/text.tsx'
import styles from './licence.module.css'

export function History({ licence }: { licence: LicenceDetail }) {
  const page = usePages('history', historyList(licence.id))
  return (
    <Section title="History">
      <PagedTable
        label="History"
        columns={[
          { name: 'When', cell: ({ at }) => <Time at={at} to="second" /> },
          { name: 'What', cell: ({ type }) => words(type) },
          {
            name: 'Change',
            wrap: true,
            cell: ({ from, to, changes }) =>
              changes ? <Changes of={changes} /> : from === to || from === null ? to : `${from} → ${to}`,
          },
          { name: 'By', cell: ({ actor }) => <code>{actor}</code> },
          { name: 'Cause', cell: ({ cause }) => (cause ? <code>{cause}</code> : <None />) },
        ]}
        page={page}
        idOf={(entry) => `${entry.at} ${entry.type} ${entry.cause ?? ''}`}
        empty="Nothing has happened to it yet."
      />
    </Section>
  )
}

function Changes({ of }: { of: Readonly<Record<string, { from: unknown; to: unknown }>> }) {
  return (
    <ul role="list" className={styles.changes}>
      {Object.entries(of).map(([field, { from, to }]) => (
        <li key={field}>
          {words(field)}: {written(from)} → {written(to)}
        </li>
      ))}
    </ul>
  )
}

function written(value: unknown): string {
  if (value === null || value === undefined) return 'none'
  return typeof value === 'string' ? value : JSON.stringify(value)
}
