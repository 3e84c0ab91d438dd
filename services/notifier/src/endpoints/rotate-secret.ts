import type { MessageInitShape } from '@bufbuild/protobuf'
import type { EndpointRequest, RotateSecretResponseSchema } from '@licensing/proto/notifier'
import type { NotifierDeps } from '../dependencies.ts'
import { encrypt } from '@licensing/database/encryption'
import { newSecret } from '../signing/secret.ts'
import { endpointDisabled, endpointNotFound } from './endpoint.ts'
import { changeSecret, lockEndpoint } from './endpoint-queries.ts'

/** Interface 4.4: signing switches to the new secret immediately. */
export async function rotateSecret(
  { sql, keys, engine }: NotifierDeps,
  request: EndpointRequest,
): Promise<MessageInitShape<typeof RotateSecretResponseSchema>> {
  const { endpointId } = request
  const secret = newSecret()
  const changed = await changeSecret(sql, request, encrypt(secret, endpointId, keys))
  if (!changed) {
    throw (await lockEndpoint(sql, request)) ? endpointDisabled(endpointId) : endpointNotFound(endpointId)
  }
  engine.endpointsChanged([changed])
  return { id: endpointId, secret }
}
