import { useApplication } from '../../api/applications.ts'
import { feeList } from '../../api/fees.ts'
import { Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { PagedTable } from '../../parts/table.tsx'
import { money, Time } from '../../parts/text.tsx'
import { REFRESH_MS } from './shown.ts'

/** Of all applications of the account. */
export function Fees() {
  const { applications } = useApplication()
  const page = usePages('fees', feeList, { refreshMs: REFRESH_MS })
  const nameOf = (id: string) => applications.find((one) => one.id === id)?.name ?? id
  return (
    <Section title="Fees">
      <PagedTable
        label="Fees"
        columns={[
          { name: 'When', cell: ({ occurred_at: at }) => <Time at={at} /> },
          { name: 'Month', cell: ({ period }) => period },
          { name: 'For', cell: ({ application_id: id }) => nameOf(id) },
          { name: 'Kind', cell: ({ kind }) => kind },
          { name: 'Charge', cell: ({ charge_ref: charge }) => <code>{charge}</code> },
          {
            name: 'Amount',
            align: 'end',
            cell: ({ amount_minor: amount, currency }) => money(amount, currency),
          },
        ]}
        page={page}
        idOf={({ id }) => id}
        empty="There are no fees yet: each paid checkout of any application costs one."
      />
    </Section>
  )
}
