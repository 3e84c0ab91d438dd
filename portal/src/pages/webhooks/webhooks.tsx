import { webhookEventTypes } from '@licensing/sdk/webhooks'
import { useQuery, type UseQueryResult } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useApplication } from '../../api/applications.ts'
import { oneOf } from '../../api/paged-list.ts'
import { useSession } from '../../api/session.ts'
import { deliveryList, deliveryStatuses, endpointsQuery, type WebhookEndpoint } from '../../api/webhooks.ts'
import { useAddress } from '../../address.ts'
import { Button } from '../../parts/button.tsx'
import { Filter, Filters } from '../../parts/filters.tsx'
import { Page, Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { PagedTable, ReadTable } from '../../parts/table.tsx'
import { count, Status, Time } from '../../parts/text.tsx'
import { AddEndpoint } from './add-endpoint.tsx'
import { deliveryColumns } from './delivery-columns.tsx'
import { endpointName } from './endpoint-name.ts'
import { SendTestEvent } from './send-test-event.tsx'

const REFRESH_MS = 3000

export function Route() {
  return (
    <Page title="Webhooks" needs={['admin', 'read']}>
      <Webhooks />
    </Page>
  )
}

function Webhooks() {
  const { appId } = useApplication()
  const endpoints = useQuery({ ...endpointsQuery(appId), refetchInterval: REFRESH_MS })
  return (
    <>
      <Endpoints endpoints={endpoints} />
      <Deliveries endpoints={endpoints.data ?? []} />
    </>
  )
}

function Endpoints({ endpoints }: { endpoints: UseQueryResult<WebhookEndpoint[]> }) {
  const { can } = useSession()
  const [, setAddress] = useAddress()
  return (
    <Section
      title="Endpoints"
      actions={
        can('admin') && (
          <>
            <Button kind="primary" onClick={() => setAddress({ open: 'add-endpoint' })}>
              Add endpoint
            </Button>
            <AddEndpoint />
          </>
        )
      }
    >
      <ReadTable
        label="Endpoints"
        of={endpoints}
        columns={[
          {
            name: 'URL',
            wrap: true,
            cell: ({ id, url }) => (
              <Link to="/webhooks/endpoints/$endpointId" params={{ endpointId: id }}>
                {url}
              </Link>
            ),
          },
          { name: 'Status', cell: (endpoint) => <Status of={shownStatus(endpoint)} /> },
          { name: 'Events', cell: ({ subscribed_events: events }) => describeEvents(events) },
          { name: 'Pending', align: 'end', cell: ({ health }) => count(health.pending) },
          {
            name: 'Last success',
            cell: ({ health }) => <Time at={health.last_success_at} none="none yet" />,
          },
        ]}
        rows={endpoints.data}
        idOf={({ id }) => id}
        empty="There are no endpoints yet. Add your backend’s address: it is sent every change, signed."
      />
    </Section>
  )
}

function shownStatus({ status, paused, health }: WebhookEndpoint) {
  if (status === 'disabled') return status
  if (paused) return 'paused'
  return health.failing_since === null ? status : 'failing'
}

function describeEvents(events: string): string {
  if (events === '*') return 'all'
  const types = events.split(',')
  return types.length > 2 ? `${types.length} types` : types.join(', ')
}

function Deliveries({ endpoints }: { endpoints: readonly WebhookEndpoint[] }) {
  const { appId } = useApplication()
  const { can } = useSession()
  const [{ status, type, endpoint }] = useAddress()
  const list = deliveryList(appId, {
    status: oneOf(deliveryStatuses, status),
    type: oneOf(webhookEventTypes, type),
    endpoint,
  })
  const page = usePages('page', list, { enabled: appId !== '', refreshMs: REFRESH_MS })
  const isFiltered = Boolean(status || type || endpoint)
  return (
    <Section title="Deliveries" actions={can('admin') && <SendTestEvent endpoints={endpoints} />}>
      <Filters>
        <Filter label="Status" name="status" list="page" options={deliveryStatuses.map(itself)} />
        <Filter label="Type" name="type" list="page" options={webhookEventTypes.map(itself)} />
        <Filter
          label="Endpoint"
          name="endpoint"
          list="page"
          options={endpoints.map(({ id }) => [id, endpointName(endpoints, id)])}
        />
      </Filters>
      <PagedTable
        label="Deliveries"
        columns={deliveryColumns(endpoints)}
        page={page}
        idOf={({ id }) => id}
        empty={
          isFiltered
            ? 'No delivery matches these filters.'
            : `There are no deliveries yet. ${endpoints.length > 0 ? 'Send' : 'Add an endpoint, then send'} a test event.`
        }
      />
    </Section>
  )
}

const itself = (text: string) => [text, text] as const
