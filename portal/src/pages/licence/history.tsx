import { useQuery } from '@tanstack/react-query'
import { historyList, type LicenceDetail } from '../../api/licences.ts'
import { Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { PagedTable } from '../../parts/table.tsx'
import { None, Time, words, money, Status } from '../../parts/text.tsx'
import styles from './licence.module.css'
import { deliveryList, endpointsQuery } from '../../api/webhooks.ts'
import { deliveryColumns } from '../webhooks/delivery-columns.tsx'
import { paymentList, refundList } from '../../api/payments.ts'

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
        empty="No webhook was sent about it: issue and import send none, and events go to endpoints that were there."
      />
    </Section>
  )
}

/** The payments and refunds of the licence. */
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
