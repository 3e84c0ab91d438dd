import type { LicenceDetail } from '../../api/licences.ts'
import { Section } from '../../parts/page.tsx'
import { Table } from '../../parts/table.tsx'
import { Time } from '../../parts/text.tsx'

/** The latest ten calls of installed products. */
export function RecentCalls({ licence }: { licence: LicenceDetail }) {
  const rows = licence.call_home.slice(0, 10).map((call, nth) => ({ ...call, nth }))
  return (
    <Section title="Recent calls">
      <Table
        label="Recent calls"
        columns={[
          { name: 'Host', wrap: true, cell: ({ host }) => host },
          { name: 'Version', wrap: true, cell: ({ product_version: version }) => version },
          { name: 'Seen', cell: ({ seen_at: at }) => <Time at={at} to="second" /> },
        ]}
        rows={rows}
        idOf={({ nth }) => String(nth)}
        empty="No product has called home yet."
      />
    </Section>
  )
}
