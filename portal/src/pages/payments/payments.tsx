import { useApplication } from '../../api/applications.ts'
import { paymentList, refundList } from '../../api/payments.ts'
import { REFRESH_MS, usePlanNames } from './shown.ts'
import { useSession } from '../../api/session.ts'
import { Page, Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { PagedTable } from '../../parts/table.tsx'
import { money, None, Status, Time, words } from '../../parts/text.tsx'
import { Checkouts } from './checkouts.tsx'
import { Customer } from './customer.tsx'
import { Fees } from './fees.tsx'
import { SpendCapSection } from './spend-cap.tsx'

export function Route() {
  const { own, can } = useSession()
  // Fees and their cap are the account's.
  const isOfAccount = own.app_id === null
  return (
    <Page title="Payments" needs={isOfAccount ? ['read', 'admin'] : ['read']}>
      {isOfAccount && can('admin') && <SpendCapSection />}
      {can('read') && (
        <>
          <Payments />
          <Refunds />
          <Checkouts />
          {isOfAccount && <Fees />}
        </>
      )}
    </Page>
  )
}

function Payments() {
  const { appId } = useApplication()
  const planName = usePlanNames(appId)
  const page = usePages('payments', paymentList(appId), { enabled: appId !== '', refreshMs: REFRESH_MS })
  return (
    <Section title="Payments">
      <PagedTable
        label="Payments"
        columns={[
          { name: 'When', cell: ({ occurred_at: at }) => <Time at={at} /> },
          {
            name: 'Customer',
            cell: ({ licence_id: licence, external_ref: reference }) => (
              <Customer licence={licence} reference={reference} />
            ),
          },
          { name: 'Plan', cell: ({ plan_id: plan }) => planName(plan) },
          {
            name: 'Charge',
            cell: ({ charge_ref: charge, sale_id: sale, id }) => <code>{charge ?? sale ?? id}</code>,
          },
          { name: 'Amount', align: 'end', cell: ({ amount, currency }) => money(amount, currency) },
          { name: 'Fee', align: 'end', cell: ({ fee_minor: fee, currency }) => money(fee, currency) },
        ]}
        page={page}
        idOf={({ id }) => id}
        empty="Nothing was paid yet. Connect a processor under Settings, give a plan a price, and open a checkout from your shop."
      />
    </Section>
  )
}

function Refunds() {
  const { appId } = useApplication()
  const page = usePages('refunds', refundList(appId), { enabled: appId !== '', refreshMs: REFRESH_MS })
  return (
    <Section title="Refunds">
      <PagedTable
        label="Refunds"
        columns={[
          { name: 'When', cell: ({ occurred_at: at }) => <Time at={at} /> },
          {
            name: 'Licence',
            cell: ({ licence_id: licence }) =>
              licence === null ? <None>none</None> : <Customer licence={licence} reference="Show" />,
          },
          { name: 'Kind', cell: ({ lane }) => words(lane) },
          { name: 'Status', cell: ({ status }) => <Status of={status} /> },
          { name: 'Charge', cell: ({ charge_ref: charge }) => <code>{charge}</code> },
          { name: 'Amount', align: 'end', cell: ({ amount, currency }) => money(amount, currency) },
        ]}
        page={page}
        idOf={({ id }) => id}
        empty="Nothing was refunded."
      />
    </Section>
  )
}
