import { useState } from 'react'
import { useApplication } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import { oneOf } from '../../api/paged-list.ts'
import type { EntitlementDefinition } from '../../api/plans.ts'
import { useAddress } from '../../address.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { SelectField, TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'

type Kind = EntitlementDefinition['kind']

const defaultField: Record<Kind, { placeholder: string; hint: string }> = {
  feature: { placeholder: 'false', hint: 'true or false, for plans that set no value. Empty: false.' },
  limit: { placeholder: '0', hint: 'A whole number, for plans that set no value. Empty: 0.' },
}
const kinds = Object.keys(defaultField) as Kind[]

export function NewEntitlement() {
  const [{ open }, setAddress] = useAddress()
  const close = () => setAddress({ open: undefined }, { replace: true })
  return (
    <Dialog title="New entitlement" open={open === 'new-entitlement'} onClose={close}>
      <NewEntitlementForm onDone={close} />
    </Dialog>
  )
}

function NewEntitlementForm({ onDone }: { onDone: () => void }) {
  const { appId } = useApplication()
  const [kind, setKind] = useState<Kind>('feature')
  return (
    <Form
      submit="Create"
      run={async (values, idempotencyKey) => {
        const name = values.text('display_name')
        const value = values.text('default')
        await api.post('/v1/apps/{app_id}/entitlement-defs', {
          path: { app_id: appId },
          body: {
            key: values.text('key'),
            kind,
            ...(name !== '' && { display_name: name }),
            ...(value !== '' && { default: value }),
          },
          idempotencyKey,
        })
        onDone()
      }}
    >
      <TextField
        label="Key"
        name="key"
        required
        maxLength={64}
        hint="The key that your product checks, such as export_pdf. It cannot be changed later."
      />
      <SelectField
        label="Kind"
        name="kind"
        value={kind}
        onChange={({ target }) => setKind(oneOf(kinds, target.value) ?? 'feature')}
      >
        {kinds.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </SelectField>
      <TextField label="Display name" name="display_name" hint="Empty: same as the key." />
      <TextField key={kind} label="Default" name="default" {...defaultField[kind]} />
    </Form>
  )
}
