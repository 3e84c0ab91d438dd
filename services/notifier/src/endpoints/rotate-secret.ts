import type { MessageInitShape } from '@bufbuild/protobuf'
import { onceAlone } from '@licensing/idempotency/once'
import { RotateSecretResponseSchema } from '@licensing/proto/notifier'
import type { EndpointRequest } from '@licensing/proto/notifier'
import type { NotifierDependencies } from '../dependencies.ts'
import { encrypt } from '@licensing/database/encryption'
import { newSecret } from '../signing/secret.ts'
import { endpointDisabled, endpointNotFound } from './endpoint.ts'
import { changeSecret, lockEndpoint } from './endpoint-queries.ts'

/** Interface 4.4: signing switches to the new secret immediately. */
export async function rotateSecret(
  { sql, keys, engine }: NotifierDependencies,
  request: EndpointRequest,
): Promise<MessageInitShape<typeof RotateSecretResponseSchema>> {
  const { endpointId } = request
  const secret = newSecret()
  const answer = { id: endpointId, secret }
  const kept = { schema: RotateSecretResponseSchema, answer: () => answer }
  const changed = await onceAlone(sql, kept, async (sql) => {
    const row = await changeSecret(sql, request, encrypt(secret, endpointId, keys))
    if (row) return row
    throw (await lockEndpoint(sql, request)) ? endpointDisabled(endpointId) : endpointNotFound(endpointId)
  })
  engine.endpointsChanged([changed])
  return answer
}
