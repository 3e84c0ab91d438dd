import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { LicensingApiError } from '@licensing/sdk/backend'
import { useApplication } from '../../api/applications.ts'
import { api, patientApi } from '../../api/client.ts'
import { changeEndpoint, type WebhookEndpoint } from '../../api/webhooks.ts'
import { useAddress } from '../../address.ts'
import { announce } from '../../parts/announce.tsx'
import { Button } from '../../parts/button.tsx'
import { ConfirmButton, Dialog } from '../../parts/dialog.tsx'
import { Actions } from '../../parts/page.tsx'
import { SigningSecret } from '../webhooks/signing-secret.tsx'
import { TextField } from '../../parts/fields.tsx'
import { Form, Result } from '../../parts/form.tsx'
import { Problem } from '../../parts/problem.tsx'
import { count } from '../../parts/text.tsx'
import { EditEndpoint } from './edit-endpoint.tsx'

export function EndpointActions({ endpoint }: { endpoint: WebhookEndpoint }) {
  const { appId } = useApplication()
  const navigate = useNavigate()
  const [, setAddress] = useAddress()
  const [secret, setSecret] = useState<string | null | undefined>(undefined)
  const path = { app_id: appId, endpoint_id: endpoint.id }
  const pausing = useMutation({
    mutationFn: () => changeEndpoint(appId, endpoint.id, { paused: !endpoint.paused }),
    onSuccess: ({ paused }) => announce(paused ? 'Paused' : 'Resumed'),
  })
  const rotate = async () => {
    const rotated = await api.post('/v1/apps/{app_id}/webhook-endpoints/{endpoint_id}/rotate-secret', {
      path,
    })
    setSecret(rotated.secret)
  }
  return (
    <Actions>
      <Button onClick={() => setAddress({ open: 'edit' })}>Edit</Button>
      <EditEndpoint endpoint={endpoint} />
      <Button busy={pausing.isPending} onClick={() => pausing.mutate()}>
        {endpoint.paused ? 'Resume' : 'Pause'}
      </Button>
      {pausing.isError && <Problem error={pausing.error} retry={() => pausing.mutate()} />}
      <Button onClick={() => setAddress({ open: 'recover' })}>Recover missed events</Button>
      <Recover endpoint={endpoint} />
      <ConfirmButton action="Rotate secret" run={rotate}>
        <p>
          From now on, deliveries are signed with a new secret. The old secret cannot be restored. Until your
          backend has the new secret, it refuses deliveries; they are retried.
        </p>
      </ConfirmButton>
      <SigningSecret secret={secret} onClose={() => setSecret(undefined)} />
      <ConfirmButton
        action="Delete"
        run={() => api.delete('/v1/apps/{app_id}/webhook-endpoints/{endpoint_id}', { path })}
        onDone={() => void navigate({ to: '/webhooks' })}
      >
        <p>
          No more deliveries are sent to <strong>{endpoint.url}</strong>. Pending deliveries fail. This cannot
          be undone. The endpoint stays listed as disabled.
        </p>
      </ConfirmButton>
    </Actions>
  )
}

function Recover({ endpoint }: { endpoint: WebhookEndpoint }) {
  const [{ open }, setAddress] = useAddress()
  const [recovered, setRecovered] = useState<number | null>(null)
  const close = () => {
    setRecovered(null)
    setAddress({ open: undefined }, { replace: true })
  }
  return (
    <Dialog title="Recover missed events" open={open === 'recover'} onClose={close}>
      {recovered === null ? (
        <RecoverForm endpoint={endpoint} onRecovered={setRecovered} />
      ) : (
        <>
          <Result>{said(recovered)}</Result>
          <Actions>
            <Button kind="primary" onClick={close}>
              Done
            </Button>
          </Actions>
        </>
      )}
    </Dialog>
  )
}

function said(deliveries: number): string {
  if (deliveries === 0) return '0 events were missed: all were delivered or are pending.'
  if (deliveries === 1) return '1 event is sent again.'
  return `${count(deliveries)} events are sent again.`
}

interface RecoverFormProps {
  endpoint: WebhookEndpoint
  onRecovered: (deliveries: number) => void
}

function RecoverForm({ endpoint, onRecovered }: RecoverFormProps) {
  const { appId } = useApplication()
  const [{ since }] = useState(() => {
    const from = endpoint.health.failing_since ?? new Date(Date.now() - 86_400_000).toISOString()
    return { since: from.slice(0, 16).replace('T', ' ') }
  })
  return (
    <Form
      submit="Recover"
      run={async (values, idempotencyKey) => {
        const until = values.text('until')
        const { deliveries } = await patientApi.post(
          '/v1/apps/{app_id}/webhook-endpoints/{endpoint_id}/recover',
          {
            path: { app_id: appId, endpoint_id: endpoint.id },
            body: {
              since: timeOf('since', values.text('since')),
              ...(until !== '' && { until: timeOf('until', until) }),
            },
            idempotencyKey,
          },
        )
        onRecovered(deliveries)
      }}
    >
      <p>
        Sends every event of this period again that was not delivered to this endpoint and is not pending.
        Delivered events are not sent again.
      </p>
      <TextField
        label="Since"
        name="since"
        required
        defaultValue={since}
        hint="UTC, such as 2026-11-22 06:00. A date without a time means 00:00."
      />
      <TextField label="Until" name="until" hint="Empty: now." />
    </Form>
  )
}

/** Reads a day, a time or a timestamp, in UTC unless it has an offset. */
function timeOf(field: string, text: string): string {
  const parts =
    /^(\d{4}-\d\d-\d\d)(?:[T ]+(\d\d:\d\d(?::\d\d(?:\.\d+)?)?)\s*(Z|UTC|[+-]\d\d:?\d\d)?)?$/i.exec(text)
  const zone = /^[+-]/.test(parts?.[3] ?? '') ? parts?.[3] : 'Z'
  const time = new Date(parts ? `${parts[1]}T${parts[2] ?? '00:00'}${zone}` : Number.NaN)
  if (!Number.isNaN(time.getTime())) return time.toISOString()
  const message = 'Use the format 2026-11-22 06:00.'
  throw new LicensingApiError('validation_failed', 422, {
    detail: 'A time is not valid',
    errors: [{ pointer: `/${field}`, message }],
  })
}
