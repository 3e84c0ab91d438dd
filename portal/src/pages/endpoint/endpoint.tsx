import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useApplication } from '../../api/applications.ts'
import { plansQuery } from '../../api/plans.ts'
import { useSession } from '../../api/session.ts'
import { deliveryList, endpointQuery, type WebhookEndpoint } from '../../api/webhooks.ts'
import { Facts } from '../../parts/facts.tsx'
import { Page, Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { ReadProblem } from '../../parts/problem.tsx'
import { PagedTable } from '../../parts/table.tsx'
import { count, None, Status, Time, words } from '../../parts/text.tsx'
import { deliveryColumns } from '../webhooks/delivery-columns.tsx'
import { EndpointActions } from './endpoint-actions.tsx'

const REFRESH_MS = 3000

export function Route() {
  const { endpointId = '' } = useParams({ strict: false })
  const { appId } = useApplication()
  const { can } = useSession()
  const endpoint = useQuery({
    ...endpointQuery(appId, endpointId),
    enabled: appId !== '' && (can('admin') || can('read')),
    refetchInterval: REFRESH_MS,
  })
  const { data, error } = endpoint
  return (
    <Page
      title={data?.url ?? 'Endpoint'}
      needs={['admin', 'read']}
      aside={data?.status === 'enabled' && can('admin') && <EndpointActions endpoint={data} />}
    >
      <ReadProblem of={endpoint} />
      {data && (
        <>
          <Health endpoint={data} />
          <Deliveries endpoint={data} />
        </>
      )}
      {!data && !error && <p role="status">Loading…</p>}
    </Page>
  )
}

function Health({ endpoint }: { endpoint: WebhookEndpoint }) {
  const { health, status, subscribed_events: events, plans, headers } = endpoint
  return (
    <Section title="Health">
      <Facts
        of={{
          Status: (
            <>
              <Status of={endpoint.paused && status === 'enabled' ? 'paused' : status} />{' '}
              {endpoint.disabled_reason && <None>{words(endpoint.disabled_reason)}</None>}
            </>
          ),
          'Pending deliveries': count(health.pending),
          'Last success': <Time at={health.last_success_at} to="second" none="none yet" />,
          'Last failure': <Time at={health.last_failure_at} to="second" none="none" />,
          'Failing since': health.failing_since ? (
            <>
              <Time at={health.failing_since} to="second" /> <Status of="failing" />
            </>
          ) : (
            <None>not failing</None>
          ),
          Events: events === '*' ? 'all' : events.split(',').join(', '),
          ...(endpoint.description && { Description: endpoint.description }),
          ...(headers && { Headers: Object.keys(headers).join(', ') }),
          ...(plans && { Plans: <PlanNames ids={plans} /> }),
          Signature: endpoint.signature === 'standard' ? 'Standard Webhooks' : 'default',
          Added: <Time at={endpoint.created_at} />,
          ...(endpoint.disabled_at && { Disabled: <Time at={endpoint.disabled_at} /> }),
          Id: <code>{endpoint.id}</code>,
        }}
      />
      {endpoint.paused && status === 'enabled' && (
        <p>It is paused: deliveries wait, and are sent when it is resumed.</p>
      )}
      {endpoint.disables_at && (
        <p>
          Deliveries to this endpoint fail
          {health.failing_since && (
            <>
              {' '}
              since <Time at={health.failing_since} />
            </>
          )}
          ; the table below shows how it answered each. If this goes on, the endpoint is disabled permanently
          at about <Time at={endpoint.disables_at} />. Repair it, or change its URL with “Edit”. If that takes
          longer, use “Pause”: its deliveries then wait, and none fails.
        </p>
      )}
      {endpoint.disabled_reason === 'retries_exhausted' && (
        <p>
          All retries of a delivery failed. Add a new endpoint under “Webhooks”, then replay the missed
          deliveries to it.
        </p>
      )}
    </Section>
  )
}

function PlanNames({ ids }: { ids: readonly string[] }) {
  const { appId } = useApplication()
  const { data: plans = [] } = useQuery(plansQuery(appId))
  return ids.map((id) => plans.find((plan) => plan.id === id)?.name ?? id).join(', ')
}

function Deliveries({ endpoint }: { endpoint: WebhookEndpoint }) {
  const { appId } = useApplication()
  const page = usePages('page', deliveryList(appId, { endpoint: endpoint.id }), { refreshMs: REFRESH_MS })
  return (
    <Section title="Deliveries">
      <PagedTable
        label="Deliveries"
        columns={deliveryColumns([endpoint]).filter(({ name }) => name !== 'Endpoint')}
        page={page}
        idOf={({ id }) => id}
        empty="Nothing was sent to it yet."
      />
    </Section>
  )
}
