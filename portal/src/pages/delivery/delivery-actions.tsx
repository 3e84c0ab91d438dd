import { useMutation, useQuery } from '@tanstack/react-query'
import type { Schemas } from '@licensing/sdk/backend'
import { useNavigate } from '@tanstack/react-router'
import { useApplication } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import { endpointsQuery } from '../../api/webhooks.ts'
import { useAddress } from '../../address.ts'
import { Button } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { SelectField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { Actions } from '../../parts/page.tsx'
import { Problem } from '../../parts/problem.tsx'
import { endpointName } from '../webhooks/endpoint-name.ts'

/** Sends the event of the delivery again, to the same endpoint or to another. */
export function DeliveryActions({ delivery }: { delivery: Schemas['WebhookDeliveryDetail'] }) {
  const { appId } = useApplication()
  const [{ open }, setAddress] = useAddress()
  const { data: endpoints = [] } = useQuery(endpointsQuery(appId))
  const replaying = useMutation({
    mutationFn: () =>
      api.post('/v1/apps/{app_id}/webhook-deliveries/{delivery_id}/replay', {
        path: { app_id: appId, delivery_id: delivery.id },
      }),
  })
  const enabled = endpoints.filter(({ status }) => status === 'enabled')
  const isEnabled = enabled.some(({ id }) => id === delivery.endpoint_id)
  if (delivery.payload === null) return null
  return (
    <Actions>
      {replaying.isError && <Problem error={replaying.error} retry={() => replaying.mutate()} />}
      <span role="status">{replaying.isSuccess && 'Sent again'}</span>
      {isEnabled && (
        <Button busy={replaying.isPending} onClick={() => replaying.mutate()}>
          Replay
        </Button>
      )}
      {enabled.some(({ id }) => id !== delivery.endpoint_id) && (
        <Button onClick={() => setAddress({ open: 'replay' })}>Replay to another endpoint</Button>
      )}
      <Dialog
        title="Replay to another endpoint"
        open={open === 'replay'}
        onClose={() => setAddress({ open: undefined }, { replace: true })}
      >
        <ReplayForm
          deliveryId={delivery.id}
          options={enabled
            .filter(({ id }) => id !== delivery.endpoint_id)
            .map(({ id }) => [id, endpointName(enabled, id)])}
        />
      </Dialog>
    </Actions>
  )
}

interface ReplayFormProps {
  deliveryId: string
  options: readonly (readonly [id: string, name: string])[]
}

function ReplayForm({ deliveryId, options }: ReplayFormProps) {
  const { appId } = useApplication()
  const navigate = useNavigate()
  return (
    <Form
      submit="Replay"
      run={async (values, idempotencyKey) => {
        const made = await api.post('/v1/apps/{app_id}/webhook-deliveries/{delivery_id}/replay', {
          path: { app_id: appId, delivery_id: deliveryId },
          body: { endpoint_id: values.text('endpoint_id') },
          idempotencyKey,
        })
        void navigate({ to: '/webhooks/deliveries/$deliveryId', params: { deliveryId: made.id } })
      }}
    >
      <p>This creates a new delivery to that endpoint, with the same event id and the same body.</p>
      <SelectField label="Endpoint" name="endpoint_id">
        {options.map(([id, name]) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </SelectField>
    </Form>
  )
}
