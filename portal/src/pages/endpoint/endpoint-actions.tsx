import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useApplication } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import type { WebhookEndpoint } from '../../api/webhooks.ts'
import { useAddress } from '../../parts/address.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { Actions } from '../../parts/page.tsx'
import { SigningSecret } from '../webhooks/signing-secret.tsx'
import { Recover } from './recover.tsx'

export function EndpointActions({ endpoint }: { endpoint: WebhookEndpoint }) {
  const { appId } = useApplication()
  const navigate = useNavigate()
  const [, setAddress] = useAddress()
  const [secret, setSecret] = useState<string | null | undefined>(undefined)
  const path = { app_id: appId, endpoint_id: endpoint.id }
  const rotate = async () => {
    const rotated = await api.post('/v1/apps/{app_id}/webhook-endpoints/{endpoint_id}/rotate-secret', {
      path,
    })
    setSecret(rotated.secret)
  }
  return (
    <Actions>
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
