import type { MessageInitShape } from '@bufbuild/protobuf'
import { transaction } from '@licensing/database/transaction'
import { ServiceError } from '@licensing/grpc/errors'
import type { RetireRootKeysRequest, RootKeysSchema } from '@licensing/proto/root-keys'
import { checkApplicationId } from '../activations/authenticate.ts'
import type { RootKeyDependencies } from '../root-key-dependencies.ts'
import { ensureRootKeys } from './ensure-root-keys.ts'
import { findCurrentRootKeys, lockRootKeys, retireRootKeysBefore } from './root-key-queries.ts'

// Releases that pin the new root key need as long to reach the installations.
const overlapMs = 180 * 86_400_000

/** Ends an application's root keys but the newest: products that pin only those can no longer be licensed. */
export async function retireRootKeys(
  { sql, encryption }: RootKeyDependencies,
  { applicationId, force }: RetireRootKeysRequest,
): Promise<MessageInitShape<typeof RootKeysSchema>> {
  checkApplicationId(applicationId)
  await ensureRootKeys(sql, encryption, [applicationId])
  return transaction(sql, async (tx) => {
    await lockRootKeys(tx, applicationId)
    const [newest, ...older] = await findCurrentRootKeys(tx, applicationId)
    const from = new Date(newest!.created_at.getTime() + overlapMs)
    if (older.length > 0 && !force && from.getTime() > Date.now()) {
      throw new ServiceError(
        'conflict',
        `the newest root key was made at ${newest!.created_at.toISOString()}: products without it would no longer be licensed; retire the older ones from ${from.toISOString()}, or with --force`,
      )
    }
    const retired = await retireRootKeysBefore(tx, applicationId, newest!.generation)
    return { rootKey: newest!.kid, current: [newest!.kid], retired }
  })
}
