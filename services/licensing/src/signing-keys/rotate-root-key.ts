import type { MessageInitShape } from '@bufbuild/protobuf'
import { transaction } from '@licensing/database/transaction'
import type { RootKeysSchema, RotateRootKeyRequest } from '@licensing/proto/root-keys'
import { checkApplicationId } from '../activations/authenticate.ts'
import type { RootKeyDependencies } from '../root-key-dependencies.ts'
import { ensureRootKeys } from './ensure-root-keys.ts'
import { findCurrentRootKeys, insertNextRootKey, lockRootKeys } from './root-key-queries.ts'
import { newRootKey } from './root-key.ts'

/** Adds a root key to an application. The former ones go on signing: products that pin them lose nothing. */
export async function rotateRootKey(
  { sql, encryption }: RootKeyDependencies,
  { applicationId }: RotateRootKeyRequest,
): Promise<MessageInitShape<typeof RootKeysSchema>> {
  checkApplicationId(applicationId)
  await ensureRootKeys(sql, encryption, [applicationId])
  const next = newRootKey(applicationId, encryption)
  const former = await transaction(sql, async (tx) => {
    await lockRootKeys(tx, applicationId)
    const current = await findCurrentRootKeys(tx, applicationId)
    await insertNextRootKey(tx, next, current[0]!.generation + 1)
    return current
  })
  return { rootKey: next.kid, current: [next.kid, ...former.map(({ kid }) => kid)] }
}
