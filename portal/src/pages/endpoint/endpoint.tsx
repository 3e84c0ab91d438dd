import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useApplication } from '../../api/applications.ts'
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
  const { health, status, subscribed_events: events } = endpoint
  return (
    <Section title="Health">
      <Facts
        of={{
          Status: (
            <>
              <Status of={status} />{' '}
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
          Added: <Time at={endpoint.created_at} />,
          ...(endpoint.disabled_at && { Disabled: <Time at={endpoint.disabled_at} /> }),
          Id: <code>{endpoint.id}</code>,
        }}
      />
      {endpoint.disabled_reason === 'retries_exhausted' && (
        <p>
          All retries of a delivery failed. Add a new endpoint under “Webhooks”, then replay the missed
          deliveries to it.
        </p>
      )}
    </Section>
  )
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
