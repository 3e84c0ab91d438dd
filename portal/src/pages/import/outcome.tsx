import { trimmedText } from '@licensing/csv/key-file'
import type { BadRow, ImportResult } from '../../api/import-licences.ts'
import type { PagedList } from '../../api/paged-list.ts'
import { Facts } from '../../parts/facts.tsx'
import { Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { PagedTable } from '../../parts/table.tsx'
import { count, None, sentence } from '../../parts/text.tsx'

const ROWS_A_PAGE = 50

interface OutcomeProps {
  began: 'check' | 'import'
  result: ImportResult
}

/** What came of the rows, or would: counts, and each bad row with its reason. */
export function Outcome({ began, result }: OutcomeProps) {
  const { total, created, existing, failed, bad, trimmed } = result
  const isCheck = began === 'check'
  const page = usePages('bad', badRows(bad))
  return (
    <Section title={isCheck ? 'Result of the check' : 'Result of the import'}>
      <Facts
        narrow
        of={{
          'Rows in the file': count(total),
          [isCheck ? 'To be created' : 'Created']: count(created),
          'Already imported': count(existing),
          'Invalid rows': count(failed),
        }}
      />
      {trimmed.length > 0 && <p>{sentence(trimmedText(trimmed))}</p>}
      <PagedTable
        label="Invalid rows"
        columns={[
          { name: 'Line', cell: ({ line }) => count(line) },
          {
            name: 'Legacy key',
            cell: ({ legacyKey }) => (legacyKey === '' ? <None /> : <code>{legacyKey}</code>),
          },
          { name: 'Reason', cell: ({ reason }) => reason },
        ]}
        page={page}
        idOf={({ line }) => String(line)}
        empty="There are no invalid rows."
      />
    </Section>
  )
}

function badRows(bad: readonly BadRow[]): PagedList<BadRow> {
  return {
    key: ['bad-rows', bad.length, bad[0]?.line ?? 0],
    load: async ({ cursor }) => {
      const from = Number(cursor ?? 0)
      const to = from + ROWS_A_PAGE
      return { data: bad.slice(from, to), next_cursor: to < bad.length ? String(to) : null }
    },
  }
}
