import { useState } from 'react'
import { useApplication } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import type { Scope } from '../../api/session.ts'
import { useAddress } from '../../parts/address.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { CheckboxField, SelectField, TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { SecretOnce } from '../../parts/secret.tsx'
import styles from './settings.module.css'

const scopes = ['admin', 'read', 'issue', 'revoke'] as const satisfies readonly Scope[]

const meanings: Readonly<Record<Scope, string>> = {
  admin: 'plans, entitlements, webhooks, keys, money',
  read: 'reads licences, payments and deliveries',
  issue: 'issues, imports, edits and sells licences',
  revoke: 'suspends, reactivates, revokes and retires',
}

export function NewKey() {
  const [{ open }, setAddress] = useAddress()
  const [key, setKey] = useState<string | null | undefined>(undefined)
  const close = () => setAddress({ open: undefined }, { replace: true })
  return (
    <>
      <Dialog title="New key" open={open === 'new-key'} onClose={close}>
        <NewKeyForm
          onMade={(made) => {
            close()
            setKey(made)
          }}
        />
      </Dialog>
      <SecretOnce
        title="Your new key"
        copy="Copy key"
        use="Keep it like a password, where only the program or person that uses it finds it."
        secret={key}
        onClose={() => setKey(undefined)}
      />
    </>
  )
}

function NewKeyForm({ onMade }: { onMade: (key: string | null) => void }) {
  const { applications } = useApplication()
  const [chosen, setChosen] = useState<readonly Scope[]>(['read'])
  return (
    <Form
      submit="Create"
      disabled={chosen.length === 0}
      run={async (values, idempotencyKey) => {
        const appId = values.text('app_id')
        const made = await api.post('/v1/api-keys', {
          body: { name: values.text('name'), scopes: [...chosen], ...(appId !== '' && { app_id: appId }) },
          idempotencyKey,
        })
        onMade(made.key)
      }}
    >
      <TextField
        label="Name"
        name="name"
        required

        hint="What uses the key, such as: shop backend."
      />
      <fieldset className={styles.scopes}>
        <legend>Scopes</legend>
        {scopes.map((scope) => (
          <div key={scope}>
            <CheckboxField
              label={scope}
              name="scopes"
              value={scope}
              aria-describedby={`scope-${scope}`}
              checked={chosen.includes(scope)}
              onChange={({ target }) =>
                setChosen(target.checked ? [...chosen, scope] : chosen.filter((one) => one !== scope))
              }
            />
            <p id={`scope-${scope}`} className={styles.note}>
              {meanings[scope]}
            </p>
          </div>
        ))}
      </fieldset>
      <SelectField
        label="Access to"
        name="app_id"
        hint="A key of one application cannot create keys or applications."
      >
        <option value="">all applications</option>
        {applications.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </SelectField>
    </Form>
  )
}
