import { Link } from '@tanstack/react-router'
import type { WebhookDelivery, WebhookEndpoint } from '../../api/webhooks.ts'
import type { Column } from '../../parts/table.tsx'
import { Clipped, None, Status, Time } from '../../parts/text.tsx'
import { endpointName } from './endpoint-name.ts'
import styles from './webhooks.module.css'

export function deliveryColumns(endpoints: readonly WebhookEndpoint[]): Column<WebhookDelivery>[] {
  return [
    {
      name: 'Event',
      cell: ({ id, event_type: type }) => (
        <Link to="/webhooks/deliveries/$deliveryId" params={{ deliveryId: id }}>
          {type}
        </Link>
      ),
    },
    {
      name: 'Status',
      cell: ({ status, next_attempt_at: next }) => (
        <>
          <Status of={status} />
          {next !== null && (
            <span className={styles.next}>
              again <Time at={next} to="second" />
            </span>
          )}
        </>
      ),
    },
    { name: 'Endpoint', cell: ({ endpoint_id: id }) => <Clipped text={endpointName(endpoints, id)} /> },
    { name: 'Attempts', align: 'end', cell: ({ attempt_count: attempts }) => attempts },
    {
      name: 'Last response',
      align: 'end',
      cell: ({ last_response_code: code, attempt_count: attempts }) =>
        code ?? (attempts > 0 ? <None>no response</None> : <None />),
    },
    { name: 'Created', cell: ({ created_at: at }) => <Time at={at} to="second" /> },
  ]
}
