import { webhookEventTypes } from '@licensing/sdk/webhooks'
import { useState } from 'react'
import { useApplication } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import { useAddress } from '../../address.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { CheckboxField, TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { SigningSecret } from './signing-secret.tsx'
import styles from './webhooks.module.css'

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
  const [types, setTypes] = useState<readonly string[]>([])
  const [isAll, setAll] = useState(true)
  const choose = (type: string, isChosen: boolean) => {
    setTypes(isChosen ? [...types, type] : types.filter((one) => one !== type))
    if (isChosen) setAll(false)
  }
  return (
    <Form
      submit="Add"
      disabled={!isAll && types.length === 0}
      run={async (values, idempotencyKey) => {
        const made = await api.post('/v1/apps/{app_id}/webhook-endpoints', {
          path: { app_id: appId },
          body: { url: values.text('url'), subscribed_events: isAll ? '*' : types.join(',') },
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
      <fieldset className={styles.types}>
        <legend>Events</legend>
        <CheckboxField
          label="All events"
          name="subscribed_events"
          value="*"
          checked={isAll}
          onChange={({ target }) => {
            setAll(target.checked)
            if (target.checked) setTypes([])
          }}
        />
        <div className={styles.columns}>
          {webhookEventTypes.map((type) => (
            <CheckboxField
              key={type}
              label={type}
              name="subscribed_events"
              value={type}
              checked={types.includes(type)}
              onChange={({ target }) => choose(type, target.checked)}
            />
          ))}
        </div>
      </fieldset>
    </Form>
  )
}
