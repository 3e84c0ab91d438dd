import { LicensingApiError, type Schemas } from '@licensing/sdk/backend'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useApplication } from '../../api/applications.ts'
import { plansQuery } from '../../api/plans.ts'
import { changeEndpoint, type EndpointChange, type WebhookEndpoint } from '../../api/webhooks.ts'
import { useAddress } from '../../address.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { SelectField, TextAreaField, TextField } from '../../parts/fields.tsx'
import { Form, type Values } from '../../parts/form.tsx'
import { EventTypes } from '../webhooks/event-types.tsx'
import { SigningSecret } from '../webhooks/signing-secret.tsx'

type Signature = Schemas['WebhookEndpoint']['signature']

const signatures: Record<Signature, string> = {
  default: 'Default (Webhook-Signature: t=…,v1=…)',
  standard: 'Standard Webhooks',
}

export function EditEndpoint({ endpoint }: { endpoint: WebhookEndpoint }) {
  const [{ open }, setAddress] = useAddress()
  const [secret, setSecret] = useState<string | undefined>(undefined)
  const close = () => setAddress({ open: undefined }, { replace: true })
  return (
    <>
      <Dialog title="Edit endpoint" open={open === 'edit'} onClose={close}>
        <EditForm
          endpoint={endpoint}
          onDone={(made) => {
            close()
            setSecret(made)
          }}
        />
      </Dialog>
      <SigningSecret secret={secret} onClose={() => setSecret(undefined)} />
    </>
  )
}

interface EditFormProps {
  endpoint: WebhookEndpoint
  /** Receives the secret that a change of the signature has made. */
  onDone: (secret: string | undefined) => void
}

function EditForm({ endpoint, onDone }: EditFormProps) {
  const { appId } = useApplication()
  const { data: plans = [] } = useQuery(plansQuery(appId))
  // The endpoint when the dialog opened. Unchanged fields are not sent, because somebody else may change them meanwhile.
  const [before] = useState(endpoint)
  const [events, setEvents] = useState(before.subscribed_events)
  return (
    <Form
      submit="Save"
      disabled={events === ''}
      isSecret
      run={async (values) => {
        const { secret } = await changeEndpoint(appId, before.id, changesOf(before, events, values))
        onDone(secret)
      }}
    >
      <TextField label="URL" name="url" type="url" required maxLength={2048} defaultValue={before.url} />
      <EventTypes events={events} onChange={setEvents} />
      <TextField
        label="Description"
        name="description"
        maxLength={200}
        defaultValue={before.description ?? ''}
      />
      <TextAreaField
        label="Headers"
        name="headers"
        rows={3}
        defaultValue={headersText(before)}
        hint={`One in a line, such as “X-Api-Key: 4f9c2e”. They are sent with every delivery. Values that are set are not shown: to change one header, enter the values of all.`}
      />
      <SelectField
        label="Plans"
        name="plans"
        multiple
        size={Math.min(6, Math.max(2, plans.length))}
        // The options may be read after the dialog has opened.
        key={plans.length}
        defaultValue={before.plans ?? []}
        hint="Events about licences of other plans are not sent. None selected: all plans."
      >
        {plans.map(({ id, name, code }) => (
          <option key={id} value={id}>
            {name} ({code})
          </option>
        ))}
      </SelectField>
      <SelectField
        label="Signature"
        name="signature"
        defaultValue={before.signature}
        hint="Another signature makes a new secret, and ends the old one at once."
      >
        {Object.entries(signatures).map(([signature, label]) => (
          <option key={signature} value={signature}>
            {label}
          </option>
        ))}
      </SelectField>
    </Form>
  )
}

function changesOf(before: WebhookEndpoint, events: string, values: Values): EndpointChange {
  const plans = values.all('plans')
  const changes: EndpointChange = {}
  if (values.text('url') !== before.url) changes.url = values.text('url')
  if (events !== before.subscribed_events) changes.subscribed_events = events
  if (values.text('description') !== (before.description ?? '')) {
    changes.description = values.text('description') || null
  }
  const headers = values.text('headers')
  if (headers !== headersText(before)) changes.headers = headersOf(headers)
  if (plans.toSorted().join() !== (before.plans ?? []).toSorted().join()) {
    changes.plans = plans.length > 0 ? plans : null
  }
  const signature = values.text('signature') as Signature
  if (signature !== before.signature) changes.signature = signature
  return changes
}

const hidden = '••••'

function headersText({ headers }: WebhookEndpoint): string {
  return Object.keys(headers ?? {})
    .map((name) => `${name}: ${hidden}`)
    .join('\n')
}

function headersOf(text: string): Record<string, string> | null {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '')
  if (lines.length === 0) return null
  const headers = lines.map((line) => {
    const [, name = '', value = ''] = /^([^:=]+)[:=](.*)$/.exec(line) ?? []
    if (name === '') throw wrongHeaders('Use the format “Name: value”, one header in a line.')
    if (value.trim() === hidden)
      throw wrongHeaders(`Enter the value of ${name.trim()} again: it is not known here.`)
    return [name.trim(), value.trim()] as const
  })
  return Object.fromEntries(headers)
}

const wrongHeaders = (message: string) =>
  new LicensingApiError('validation_failed', 422, {
    detail: 'The headers are not valid',
    errors: [{ pointer: '/headers', message }],
  })
