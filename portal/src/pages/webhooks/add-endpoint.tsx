import { useState } from 'react'
import { useApplication } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import { useAddress } from '../../address.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { EventTypes } from './event-types.tsx'
import { SigningSecret } from './signing-secret.tsx'

export function AddEndpoint() {
  const [{ open }, setAddress] = useAddress()
  const [secret, setSecret] = useState<string | null | undefined>(undefined)
  const close = () => setAddress({ open: undefined }, { replace: true })
  return (
    <>
      <Dialog title="Add endpoint" open={open === 'add-endpoint'} onClose={close}>
        <AddEndpointForm
          onAdded={(made) => {
            close()
            setSecret(made)
          }}
        />
      </Dialog>
      <SigningSecret secret={secret} onClose={() => setSecret(undefined)} />
    </>
  )
}

function AddEndpointForm({ onAdded }: { onAdded: (secret: string | null) => void }) {
  const { appId } = useApplication()
  const [events, setEvents] = useState('*')
  return (
    <Form
      submit="Add"
      disabled={events === ''}
      run={async (values, idempotencyKey) => {
        const made = await api.post('/v1/apps/{app_id}/webhook-endpoints', {
          path: { app_id: appId },
          body: { url: values.text('url'), subscribed_events: events },
          idempotencyKey,
        })
        onAdded(made.secret)
      }}
    >
      <TextField
        label="URL"
        name="url"
        type="url"
        required
        maxLength={2048}
        placeholder="https://example.com/webhooks"
        hint="An https URL that is reachable from the internet."
      />
      <EventTypes events={events} onChange={setEvents} />
    </Form>
  )
}
