import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { useApplication } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import type { WebhookEndpoint } from '../../api/webhooks.ts'
import { Button } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { SelectField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { Problem } from '../../parts/problem.tsx'
import { endpointName } from './endpoint-name.ts'

/** Sends a test event to the only endpoint. If there are several, the user chooses one. */
export function SendTestEvent({ endpoints }: { endpoints: readonly WebhookEndpoint[] }) {
  const { appId } = useApplication()
  const [isOpen, setOpen] = useState(false)
  const enabled = endpoints.filter(({ status }) => status === 'enabled')
  const send = (endpointId: string) =>
    api.post('/v1/apps/{app_id}/webhook-endpoints/{endpoint_id}/test', {
      path: { app_id: appId, endpoint_id: endpointId },
    })
  const sending = useMutation({ mutationFn: send })
  const [only] = enabled
  if (!only) return null
  const start = () => (enabled.length === 1 ? sending.mutate(only.id) : setOpen(true))
  return (
    <>
      {sending.isError && <Problem error={sending.error} retry={() => sending.mutate(only.id)} />}
      <span role="status">{sending.isSuccess && 'Sent: it is the first below.'}</span>
      <Button busy={sending.isPending} onClick={start}>
        Send test event
      </Button>
      <Dialog title="Send test event" open={isOpen} onClose={() => setOpen(false)}>
        <Form
          submit="Send"
          run={async (values) => {
            await send(values.text('endpoint'))
            setOpen(false)
          }}
        >
          <SelectField label="Endpoint" name="endpoint">
            {enabled.map(({ id }) => (
              <option key={id} value={id}>
                {endpointName(enabled, id)}
              </option>
            ))}
          </SelectField>
        </Form>
      </Dialog>
    </>
  )
}
