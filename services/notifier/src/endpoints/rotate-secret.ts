import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Transaction } from '@licensing/database/connect'
import { RotateSecretResponseSchema } from '@licensing/proto/notifier'
import type { EndpointRequest } from '@licensing/proto/notifier'
import type { NotifierDependencies } from '../dependencies.ts'
import { encrypt } from '@licensing/database/encryption'
import { newSecret } from '../signing/secret.ts'
import { endpointDisabled, endpointNotFound } from './endpoint.ts'
import { changeSecret, lockEndpoint } from './endpoint-queries.ts'

/** Interface 4.4: signing switches to the new secret immediately. */
export async function rotateSecret(
  { change, keys, engine }: NotifierDependencies,
  request: EndpointRequest,
): Promise<MessageInitShape<typeof RotateSecretResponseSchema>> {
  const { endpointId } = request
  const secret = newSecret()
  const replace = async (tx: Transaction) => {
    const row = await changeSecret(tx, request, encrypt(secret, endpointId, keys))
    if (row) return row
    throw (await lockEndpoint(tx, request)) ? endpointDisabled(endpointId) : endpointNotFound(endpointId)
  }
  const response = { id: endpointId, secret }
  const changed = await change(replace, {
    answer: { schema: RotateSecretResponseSchema, of: () => response },
  })
  engine.endpointsChanged([changed])
  return response
}
