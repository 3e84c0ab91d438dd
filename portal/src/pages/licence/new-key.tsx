import { newIdempotencyKey } from '@licensing/sdk/backend'
import { useRef, useState } from 'react'
import { api } from '../../api/client.ts'
import type { LicenceDetail } from '../../api/licences.ts'
import { Button } from '../../parts/button.tsx'
import { Copy } from '../../parts/copy.tsx'
import { ConfirmButton, Dialog } from '../../parts/dialog.tsx'
import { Actions } from '../../parts/page.tsx'

/** Replaces the key of a licence. */
export function NewKey({ licence }: { licence: LicenceDetail }) {
  const [key, setKey] = useState<string | null>(null)
  // The idempotency key stays until the call succeeds. If the answer is lost, trying again returns the same new licence key.
  const attempt = useRef<string>(undefined)
  return (
    <>
      <ConfirmButton
        action="New key"
        run={async () => {
          attempt.current ??= newIdempotencyKey()
          const rotated = await api.post('/v1/licences/{licence_id}/rotate-key', {
            path: { licence_id: licence.id },
            idempotencyKey: attempt.current,
          })
          attempt.current = undefined
          setKey(rotated.key)
        }}
      >
        <p>
          The licence of <strong>{licence.external_ref}</strong> gets a new key, and the old key stops working
          within two seconds. This cannot be undone. Activated products stay activated; new activations need
          the new key.
        </p>
      </ConfirmButton>
      <Dialog title="The new key" open={key !== null} onClose={() => setKey(null)}>
        {key !== null && (
          <>
            <p>
              Send it to <strong>{licence.external_ref}</strong>. It stays on this page, too.
            </p>
            <Copy name="Copy new key" text={key} isCopiedAtOnce />
            <Actions>
              <Button kind="primary" onClick={() => setKey(null)}>
                Done
              </Button>
            </Actions>
          </>
        )}
      </Dialog>
    </>
  )
}
