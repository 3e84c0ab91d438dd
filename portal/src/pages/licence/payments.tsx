import type { LicenceDetail } from '../../api/licences.ts'
import { paymentList, refundList } from '../../api/payments.ts'
import { Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { PagedTable } from '../../parts/table.tsx'
import { money, None, Status, Time, words } from '../../parts/text.tsx'

/** What was paid for the licence, and what was given back. */
export function Payments({ licence: { id: licence, application_id: appId } }: { licence: LicenceDetail }) {
  const payments = usePages('payments', paymentList(appId, { licence }))
  const refunds = usePages('refunds', refundList(appId, { licence }))
  const wasRefunded = (refunds.rows?.length ?? 0) > 0 || refunds.of.error !== null
  return (
    <Section title="Payments">
      <PagedTable
        label="Payments"
        columns={[
          { name: 'When', cell: ({ occurred_at: at }) => <Time at={at} /> },
          {
            name: 'Charge',
            cell: (payment) => <code>{payment.charge_ref ?? payment.sale_id ?? payment.id}</code>,
          },
          {
            name: 'Amount',
            align: 'end',
            cell: ({ amount, currency }) => money(amount, currency),
          },
          { name: 'Fee', align: 'end', cell: ({ fee_minor: fee, currency }) => money(fee, currency) },
        ]}
        page={payments}
        idOf={({ id }) => id}
        empty="Nothing was paid for it here: it was issued or imported."
      />
      {wasRefunded && (
        <PagedTable
          label="Refunds"
          columns={[
            { name: 'When', cell: ({ occurred_at: at }) => <Time at={at} /> },
            { name: 'Charge', cell: ({ charge_ref: charge }) => <code>{charge}</code> },
            { name: 'Kind', cell: ({ lane }) => words(lane) },
            { name: 'Status', cell: ({ status }) => <Status of={status} /> },
            { name: 'Amount', align: 'end', cell: ({ amount, currency }) => money(amount, currency) },
          ]}
          page={refunds}
          idOf={({ id }) => id}
          empty={<None>none</None>}
        />
      )}
    </Section>
  )
}
