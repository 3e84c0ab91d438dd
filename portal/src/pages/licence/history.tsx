import { historyList, type HistoryEntry, type LicenceDetail } from '../../api/licences.ts'
import { Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { PagedTable } from '../../parts/table.tsx'
import { None, Time, words } from '../../parts/text.tsx'
import { nameOfActor } from './actor.ts'
import { changedValues } from './changes.ts'
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
          { name: 'Change', wrap: true, cell: (entry) => <Change of={entry} /> },
          {
            name: 'By',
            wrap: true,
            cell: (entry) => <span title={entry.actor}>{nameOfActor(entry)}</span>,
          },
          { name: 'Cause', wrap: true, cell: ({ cause }) => (cause ? <code>{cause}</code> : <None />) },
        ]}
        page={page}
        idOf={(entry) =>
          `${entry.at} ${entry.type} ${entry.cause ?? ''} ${Object.keys(entry.changes ?? {}).join(' ')}`
        }
        empty="Nothing has happened to it yet."
      />
    </Section>
  )
}

function Change({ of: { from, to, changes } }: { of: HistoryEntry }) {
  if (!changes) return from === to || from === null ? to : `${from} → ${to}`
  return (
    <ul role="list" className={styles.changes}>
      {changedValues(changes).map((value) => (
        <li key={value.name}>
          {value.name}: {value.from} → {value.to}
        </li>
      ))}
    </ul>
  )
}
