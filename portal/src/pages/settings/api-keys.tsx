import { useApplication } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import { signOut, useSession } from '../../api/session.ts'
import { apiKeyList, type ApiKey } from '../../api/settings.ts'
import { useAddress } from '../../parts/address.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { PagedTable } from '../../parts/table.tsx'
import { None, Status, Time } from '../../parts/text.tsx'
import { NewKey } from './new-key.tsx'

export function ApiKeys() {
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
          { name: 'Name', cell: ({ name }) => name },
          { name: 'Ends with', cell: ({ last_four: end }) => <code>…{end}</code> },
          { name: 'Scopes', cell: ({ scopes }) => scopes.join(', ') },
          { name: 'Access to', cell: ({ app_id: id }) => (id === null ? 'all applications' : nameOf(id)) },
          { name: 'Created', cell: ({ created_at: at }) => <Time at={at} /> },
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
