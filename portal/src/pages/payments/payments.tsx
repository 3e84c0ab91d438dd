import { useMutation } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useApplication } from '../../api/applications.ts'
import {
  paymentList,
  type MoneyFilters,
  refundList,
  REFRESH_MS,
  usePlanNames,
  checkoutList,
  checkoutStatuses,
  replayCheckout,
  type Checkout,
  feeList,
} from '../../api/payments.ts'
import { useSession } from '../../api/session.ts'
import { Page, Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { PagedTable, type Column } from '../../parts/table.tsx'
import { Clipped, money, None, Status, Time, words } from '../../parts/text.tsx'
import { Charge, PaymentCharge } from './charge.tsx'
import { SpendCapSection } from './spend-cap.tsx'
import { oneOf } from '../../api/paged-list.ts'
import { useAddress } from '../../address.ts'
import { Button } from '../../parts/button.tsx'
import { DayFilter, Filter, Filters, TextFilter } from '../../parts/filters.tsx'
import { Problem } from '../../parts/problem.tsx'

export function Route() {
  const { own, can } = useSession()
  // Fees and their cap belong to the account, so a key of one application does not see them.
  const isOfAccount = own.app_id === null
  return (
    <Page title="Payments" needs={isOfAccount ? ['read', 'admin'] : ['read']}>
      {isOfAccount && can('admin') && <SpendCapSection />}
      {can('read') && (
        <>
          <MoneyFilterFields />
          <Payments />
          <Refunds />
          <Checkouts />
          {isOfAccount && <Fees />}
        </>
      )}
    </Page>
  )
}

const both = ['payments', 'refunds']

/** The filters that payments and refunds have in common. */
function MoneyFilterFields() {
  return (
    <Filters>
      <DayFilter label="From" name="from" list={both} />
      <DayFilter label="To" name="to" list={both} />
      <TextFilter label="Charge" name="charge" list={both} placeholder="ch_…" />
    </Filters>
  )
}

function useMoneyFilters(): { filters: MoneyFilters; isFiltered: boolean } {
  const [{ from, to, charge, licence }] = useAddress()
  const filters = {
    since: startOf(from, 0),
    // The last day is included.
    until: startOf(to, 1),
    charge_ref: charge,
    licence,
  }
  return { filters, isFiltered: Object.values(filters).some((value) => value !== undefined) }
}

function startOf(day: string | undefined, daysLater: number): string | undefined {
  const at = Date.parse(`${day}T00:00:00.000Z`)
  return Number.isNaN(at) ? undefined : new Date(at + daysLater * 86_400_000).toISOString()
}

function Payments() {
  const { appId } = useApplication()
  const planName = usePlanNames(appId)
  const { filters, isFiltered } = useMoneyFilters()
  const page = usePages('payments', paymentList(appId, filters), {
    enabled: appId !== '',
    refreshMs: REFRESH_MS,
  })
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
          { name: 'Plan', cell: ({ plan_id: plan }) => <Clipped text={planName(plan)} narrow /> },
          {
            name: 'Charge',
            cell: (payment) => <PaymentCharge payment={payment} />,
          },
          { name: 'Amount', align: 'end', cell: ({ amount, currency }) => money(amount, currency) },
          { name: 'Fee', align: 'end', cell: ({ fee_minor: fee, currency }) => money(fee, currency) },
        ]}
        page={page}
        idOf={({ id }) => id}
        empty={
          isFiltered
            ? 'No payment matches these filters.'
            : 'Nothing was paid yet. Connect a processor under Settings, give a plan a price, and open a checkout from your shop.'
        }
      />
    </Section>
  )
}

function Refunds() {
  const { appId } = useApplication()
  const { filters, isFiltered } = useMoneyFilters()
  const page = usePages('refunds', refundList(appId, filters), {
    enabled: appId !== '',
    refreshMs: REFRESH_MS,
  })
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
          {
            name: 'Charge',
            cell: ({ charge_ref: ref, occurred_at: at }) => <Charge chargeRef={ref} at={at} />,
          },
          { name: 'Amount', align: 'end', cell: ({ amount, currency }) => money(amount, currency) },
        ]}
        page={page}
        idOf={({ id }) => id}
        empty={isFiltered ? 'No refund matches these filters.' : 'Nothing was refunded.'}
      />
    </Section>
  )
}

export function Checkouts() {
  const { appId } = useApplication()
  const { can } = useSession()
  const [{ status }] = useAddress()
  const planName = usePlanNames(appId)
  const list = checkoutList(appId, { status: oneOf(checkoutStatuses, status) })
  const page = usePages('checkouts', list, { enabled: appId !== '', refreshMs: REFRESH_MS })
  const replaying = useMutation({ mutationFn: (sessionId: string) => replayCheckout(appId, sessionId) })
  const replayOf: Column<Checkout> = {
    name: 'Actions',
    quiet: true,
    align: 'end',
    cell: ({ id, status }) =>
      status === 'provision_failed' && (
        <Button
          busy={replaying.isPending && replaying.variables === id}
          onClick={() => !replaying.isPending && replaying.mutate(id)}
        >
          Replay
        </Button>
      ),
  }
  return (
    <Section title="Checkouts">
      <Filters>
        <Filter
          label="Status"
          name="status"
          list="checkouts"
          options={checkoutStatuses.map((one) => [one, words(one)])}
        />
      </Filters>
      {replaying.isError && (
        <Problem error={replaying.error} retry={() => replaying.mutate(replaying.variables)} />
      )}
      <PagedTable
        label="Checkouts"
        columns={[
          { name: 'Opened', cell: ({ created_at: at }) => <Time at={at} /> },
          {
            name: 'Customer',
            cell: ({ licence_id: licence, external_ref: reference }) => (
              <Customer licence={licence} reference={reference} />
            ),
          },
          { name: 'Plan', cell: ({ plan_id: plan }) => <Clipped text={planName(plan)} narrow /> },
          { name: 'Status', cell: ({ status }) => <Status of={status} /> },
          { name: 'Reason', cell: ({ reason }) => (reason === null ? <None /> : words(reason)) },
          { name: 'Amount', align: 'end', cell: ({ amount, currency }) => money(amount, currency) },
          ...(can('issue') ? [replayOf] : []),
        ]}
        page={page}
        idOf={({ id }) => id}
        empty={
          status
            ? 'No checkout matches these filters.'
            : 'There are no checkouts yet. Your shop creates them with POST …/checkout-sessions.'
        }
      />
    </Section>
  )
}

/** The fees of all applications of the account. */
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

interface CustomerProps {
  licence: string | null
  reference: string
}

/** A customer's reference, as a link to the licence. */
export function Customer({ licence, reference }: CustomerProps) {
  if (licence === null) return <Clipped text={reference} narrow />
  return (
    <Link to="/licences/$licenceId" params={{ licenceId: licence }}>
      <Clipped text={reference} narrow />
    </Link>
  )
}
