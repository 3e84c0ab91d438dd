import type { Schemas } from '@licensing/sdk/backend'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import type { LicenceDetail } from '../../api/licences.ts'
import { useSession } from '../../api/session.ts'
import { useAddress } from '../../address.ts'
import { Button } from '../../parts/button.tsx'
import { Copy } from '../../parts/copy.tsx'
import { ConfirmButton, Dialog } from '../../parts/dialog.tsx'
import { TextField } from '../../parts/fields.tsx'
import { Form, Result } from '../../parts/form.tsx'
import { Actions } from '../../parts/page.tsx'
import { Time } from '../../parts/text.tsx'

/** Creates a link to the page on which the customer sees the licence and removes machines, and ends such links. */
export function CustomerLink({ licence }: { licence: LicenceDetail }) {
  const { can } = useSession()
  const [{ open }, setAddress] = useAddress()
  const [link, setLink] = useState<Schemas['CustomerLink'] | null>(null)
  const close = () => {
    setAddress({ open: undefined }, { replace: true })
    setLink(null)
  }
  const request = { path: { licence_id: licence.id } }
  if (!can('issue')) return null
  return (
    <>
      <Button onClick={() => setAddress({ open: 'customer-link' })}>Customer link</Button>
      <ConfirmButton
        action="End customer sessions"
        run={() => api.delete('/v1/licences/{licence_id}/customer-sessions', request)}
      >
        <p>
          All links to the customer’s page of <strong>{licence.external_ref}</strong> stop working within two
          seconds, and whoever signed in with the licence key is signed out. The licence and its activations
          do not change. You can create another link.
        </p>
      </ConfirmButton>
      <Dialog title="Customer link" open={open === 'customer-link'} onClose={close}>
        {link ? (
          <>
            <Result>
              Send this link to <strong>{licence.external_ref}</strong>. Whoever has it sees the licence and
              can remove its machines, until <Time at={link.expires_at} />. It is shown only now.
            </Result>
            <Copy name="Copy link" text={link.url ?? ''} />
            <Actions>
              <Button kind="primary" onClick={close}>
                Done
              </Button>
            </Actions>
          </>
        ) : (
          <Form
            submit="Create link"
            // Without an idempotency key: if the answer is lost, trying again makes another link, because a link is shown once.
            run={async (values) => {
              const [minutes, returnUrl] = [values.number('minutes'), values.text('return_url')]
              const body = {
                ...(minutes !== null && { minutes }),
                ...(returnUrl !== '' && { return_url: returnUrl }),
              }
              setLink(await api.post('/v1/licences/{licence_id}/customer-sessions', { ...request, body }))
            }}
          >
            <TextField
              label="Minutes"
              name="minutes"
              inputMode="numeric"
              required
              defaultValue={60}
              hint="How long the link works, 5 to 1440."
            />
            <TextField
              label="Return address"
              name="return_url"
              type="url"
              placeholder="https://"
              hint="The page shows it as the link “Back”. Empty: no such link."
            />
          </Form>
        )}
      </Dialog>
    </>
  )
}
