import { timestampDate } from '@bufbuild/protobuf/wkt'
import { longLockTimeout } from '@licensing/changes/change'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import type { Loop } from '@licensing/process/loop'
import type { ApplyPurchaseEffectsResponse } from '@licensing/proto/purchases'
import type { BillingDependencies } from '../dependencies.ts'
import { timing } from '../timing.ts'
import { adoptLicensingEpoch, findLicensingEpoch, resendSome } from './resend-queries.ts'

const effectsTogether = 1_000

/**
 * Sends effects again that licensing may have lost, because its database was restored from a backup or failed over.
 * Licensing is asked regularly whether it was, because there may be no payment that would tell.
 */
export function startResends(deps: BillingDependencies): Loop {
  return startDatabaseLoop('effects to send again', deps.log, timing.upkeep, async () => {
    await askLicensingEpoch(deps).catch((error: unknown) =>
      deps.log.debug({ err: error }, 'licensing did not say whether it was restored'),
    )
    const purchases = await deps.change((tx) => resendSome(tx, effectsTogether), longLockTimeout)
    if (purchases === undefined) return timing.upkeep
    deps.wake('send')
    return 0
  })
}

export async function askLicensingEpoch(deps: BillingDependencies): Promise<void> {
  const epoch = await findLicensingEpoch(deps.sql)
  await adopt(deps, await deps.purchases.applyPurchaseEffects({ effects: [], epoch }))
}

/**
 * Takes note of the epoch of an answer.
 *
 * @returns its ordinal. If a later one is known when the answer is recorded, the effects may be lost
 */
export async function adopt(
  deps: BillingDependencies,
  { epoch }: Pick<ApplyPurchaseEffectsResponse, 'epoch'>,
): Promise<bigint> {
  const { ordinal = 0n, aliveAt } = epoch ?? {}
  const known = await findLicensingEpoch(deps.sql)
  if (!aliveAt || ordinal <= known) return ordinal
  const answered = { ordinal, aliveAt: timestampDate(aliveAt) }
  const isAdopted = await deps.change((tx) => adoptLicensingEpoch(tx, answered), longLockTimeout)
  if (isAdopted && known > 0n) {
    deps.log.info(
      answered,
      'the database of licensing was restored or restarted: recent effects are sent again',
    )
  }
  return ordinal
}
