import { useMutation } from '@tanstack/react-query'
import { useApplication } from '../../api/applications.ts'
import { checkoutList, checkoutStatuses, replayCheckout, type Checkout } from '../../api/checkouts.ts'
import { oneOf } from '../../api/paged-list.ts'
import { useSession } from '../../api/session.ts'
import { useAddress } from '../../parts/address.ts'
import { Button } from '../../parts/button.tsx'
import { Filter, Filters } from '../../parts/filters.tsx'
import { Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { Problem } from '../../parts/problem.tsx'
import { PagedTable, type Column } from '../../parts/table.tsx'
import { money, None, Status, Time, words } from '../../parts/text.tsx'
import { Customer } from './customer.tsx'
import { REFRESH_MS, usePlanNames } from './shown.ts'

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
          { name: 'Plan', cell: ({ plan_id: plan }) => planName(plan) },
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
