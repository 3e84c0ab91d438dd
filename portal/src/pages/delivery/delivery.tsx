import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import type { Schemas } from '@licensing/sdk/backend'
import { useApplication } from '../../api/applications.ts'
import { useSession } from '../../api/session.ts'
import { attemptList, deliveryQuery, endpointsQuery } from '../../api/webhooks.ts'
import { Facts } from '../../parts/facts.tsx'
import { Page, Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { ReadProblem } from '../../parts/problem.tsx'
import { PagedTable } from '../../parts/table.tsx'
import { count, None, Status, Time } from '../../parts/text.tsx'
import { endpointName } from '../webhooks/endpoint-name.ts'
import styles from './delivery.module.css'
import { DeliveryActions } from './delivery-actions.tsx'

const REFRESH_MS = 3000

type Delivery = Schemas['WebhookDeliveryDetail']

export function Route() {
  const { deliveryId = '' } = useParams({ strict: false })
  const { appId } = useApplication()
  const { can } = useSession()
  const delivery = useQuery({
    ...deliveryQuery(appId, deliveryId),
    enabled: appId !== '' && (can('admin') || can('read')),
    refetchInterval: REFRESH_MS,
  })
  const { data, error } = delivery
  return (
    <Page
      title={data?.event_type ?? 'Delivery'}
      needs={['admin', 'read']}
      aside={data && can('admin') && <DeliveryActions delivery={data} />}
    >
      <ReadProblem of={delivery} />
      {data && (
        <>
          <Summary delivery={data} />
          <Attempts delivery={data} />
          <Payload delivery={data} />
        </>
      )}
      {!data && !error && <p role="status">Loading…</p>}
    </Page>
  )
}

function Summary({ delivery }: { delivery: Delivery }) {
  const { appId } = useApplication()
  const { data: endpoints = [] } = useQuery(endpointsQuery(appId))
  const { endpoint_id: endpointId, licence_id: licenceId, next_attempt_at: next } = delivery
  return (
    <Facts
      of={{
        Status: <Status of={delivery.status} />,
        Endpoint: (
          <Link to="/webhooks/endpoints/$endpointId" params={{ endpointId }}>
            {endpointName(endpoints, endpointId)}
          </Link>
        ),
        Licence:
          licenceId === null ? (
            <None>none</None>
          ) : (
            <Link to="/licences/$licenceId" params={{ licenceId }}>
              {licenceId}
            </Link>
          ),
        'Next attempt': <Time at={next} to="second" none="none" />,
        Created: <Time at={delivery.created_at} to="second" />,
        Event: <code>{delivery.event_id}</code>,
      }}
    />
  )
}

function Attempts({ delivery }: { delivery: Delivery }) {
  const { appId } = useApplication()
  const page = usePages('page', attemptList(appId, delivery.id), { refreshMs: REFRESH_MS })
  return (
    <Section title="Attempts">
      <PagedTable
        label="Attempts"
        columns={[
          { name: 'Attempt', cell: ({ attempt }) => attempt },
          { name: 'When', cell: ({ at }) => <Time at={at} to="second" /> },
          { name: 'Response', cell: ({ response_code: code }) => code ?? <None>no response</None> },
          {
            name: 'Error',
            wrap: true,
            cell: ({ error, response_code: code }) =>
              error ?? (isGood(code) ? <None /> : <None>not a 2xx</None>),
          },
          { name: 'Took', align: 'end', cell: ({ duration_ms: ms }) => `${count(ms)} ms` },
          {
            name: 'Response body',
            wrap: true,
            cell: ({ response_excerpt: text }) =>
              text ? <code className={styles.excerpt}>{text}</code> : <None />,
          },
        ]}
        page={page}
        idOf={({ attempt }) => String(attempt)}
        empty="It has not been tried yet."
      />
    </Section>
  )
}

const isGood = (code: number | null) => code !== null && code >= 200 && code < 300

function Payload({ delivery: { payload } }: { delivery: Delivery }) {
  return (
    <Section title="Payload">
      {payload === null ? (
        <p>The payload was deleted after 90 days. It cannot be shown or replayed.</p>
      ) : (
        <pre className={styles.payload} tabIndex={0} aria-label="Payload">
          {indented(payload)}
        </pre>
      )}
    </Section>
  )
}

function indented(payload: string): string {
  try {
    return JSON.stringify(JSON.parse(payload), null, 2)
  } catch {
    return payload
  }
}
