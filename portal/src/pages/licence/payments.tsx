import { useQuery } from '@tanstack/react-query'
import type { LicenceDetail } from '../../api/licences.ts'
import { paymentList, refundList } from '../../api/payments.ts'
import { deliveryList, endpointsQuery } from '../../api/webhooks.ts'
import { Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { PagedTable } from '../../parts/table.tsx'
import { money, None, Status, Time, words } from '../../parts/text.tsx'
import { Charge, PaymentCharge } from '../payments/charge.tsx'
import { deliveryColumns } from '../webhooks/delivery-columns.tsx'
import { CheckoutLink } from './checkout-link.tsx'

const REFRESH_MS = 5000

/** The webhook deliveries about the licence. */
export function Deliveries({ licence: { id: licence, application_id: appId } }: { licence: LicenceDetail }) {
  const page = usePages('deliveries', deliveryList(appId, { licence }), { refreshMs: REFRESH_MS })
  const { data: endpoints } = useQuery(endpointsQuery(appId))
  return (
    <Section title="Deliveries">
      <PagedTable
        label="Deliveries"
        columns={deliveryColumns(endpoints ?? [])}
        page={page}
        idOf={({ id }) => id}
        empty="No webhook was sent about it: issue and import send none, and an event goes only to endpoints that existed at its time."
      />
    </Section>
  )
}

/** The payments and refunds of the licence. */
export function Payments({ licence }: { licence: LicenceDetail }) {
  const { id, application_id: appId } = licence
  const payments = usePages('payments', paymentList(appId, { licence: id }))
  const refunds = usePages('refunds', refundList(appId, { licence: id }))
  const wasRefunded = (refunds.rows?.length ?? 0) > 0 || refunds.of.error !== null
  return (
    <Section title="Payments" actions={<CheckoutLink licence={licence} />}>
      <PagedTable
        label="Payments"
        columns={[
          { name: 'When', cell: ({ occurred_at: at }) => <Time at={at} /> },
          {
            name: 'Charge',
            cell: (payment) => <PaymentCharge payment={payment} />,
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
        empty="Nothing was paid for it here."
      />
      {wasRefunded && (
        <PagedTable
          label="Refunds"
          columns={[
            { name: 'When', cell: ({ occurred_at: at }) => <Time at={at} /> },
            {
              name: 'Charge',
              cell: ({ charge_ref: ref, occurred_at: at }) => <Charge chargeRef={ref} at={at} />,
            },
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
