import { useState } from 'react'
import { useApplication } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import { signOut, useSession } from '../../api/session.ts'
import type { Scope } from '../../api/session.ts'
import { apiKeyList, type ApiKey } from '../../api/settings.ts'
import { useAddress } from '../../address.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmButton, Dialog } from '../../parts/dialog.tsx'
import { Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { PagedTable } from '../../parts/table.tsx'
import { None, Status, Time } from '../../parts/text.tsx'
import { CheckboxField, SelectField, TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { SecretOnce } from '../../parts/copy.tsx'
import styles from './settings.module.css'

export function ApiKeys() {
  const { own } = useSession()
  const { applications } = useApplication()
  const [, setAddress] = useAddress()
  const page = usePages('keys', apiKeyList)
  const nameOf = (id: string) => applications.find((one) => one.id === id)?.name ?? id
  return (
    <Section
      title="API keys"
      actions={
        <>
          <Button kind="primary" onClick={() => setAddress({ open: 'new-key' })}>
            New key
          </Button>
          <NewKey />
        </>
      }
    >
      <PagedTable
        label="API keys"
        columns={[
          {
            name: 'Name',
            cell: ({ id, name }) => (
              <span>
                {name} {id === own.id && <None>· your key</None>}
              </span>
            ),
          },
          { name: 'Ends with', cell: ({ last_four: end }) => <code>…{end}</code> },
          { name: 'Scopes', cell: ({ scopes }) => scopes.join(', ') },
          { name: 'Access to', cell: ({ app_id: id }) => (id === null ? 'all applications' : nameOf(id)) },
          { name: 'Created', cell: ({ created_at: at }) => <Time at={at} to="day" /> },
          { name: 'Last used', cell: ({ last_used_at: at }) => <Time at={at} none="never" /> },
          {
            name: 'Actions',
            quiet: true,
            align: 'end',
            cell: (key) =>
              key.revoked_at === null ? <RevokeButton apiKey={key} /> : <Status of="revoked" />,
          },
        ]}
        page={page}
        idOf={({ id }) => id}
        empty={<None>There are no keys.</None>}
      />
    </Section>
  )
}

function RevokeButton({ apiKey: { id, name, last_four: end } }: { apiKey: ApiKey }) {
  const { own } = useSession()
  return (
    <ConfirmButton
      action="Revoke"
      look="quiet"
      run={async () => {
        await api.delete('/v1/api-keys/{key_id}', { path: { key_id: id } })
        if (id === own.id) await signOut()
      }}
    >
      <p>
        The key <strong>{name}</strong> (<code>…{end}</code>) is refused within two seconds. This cannot be
        undone. Everything that uses it needs a new key.
      </p>
      {id === own.id && <p>You are signed in with this key. You will need another key to sign in again.</p>}
    </ConfirmButton>
  )
}

const scopes = ['admin', 'read', 'issue', 'revoke'] as const satisfies readonly Scope[]

const meanings: Readonly<Record<Scope, string>> = {
  admin: 'plans, entitlements, webhooks, keys, money',
  read: 'reads licences, payments and deliveries',
  issue: 'issues, imports, edits and sells licences',
  revoke: 'suspends, reactivates, revokes and retires',
}

function NewKey() {
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
