import { longLockTimeout } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import { append } from '@licensing/events/outbox'
import type { Loop } from '@licensing/process/loop'
import { lockExpiring, recordNotices } from './notice-queries.ts'
import type { SweepDependencies, SweepOptions } from './sweep-expiries.ts'

// A verb on one of these licences may wait for all of them.
const sentAtOnce = 200

/** Sends `licence.expiring` in the background, and catches up after a downtime. Replicas share the work. */
export function startExpiringNotices({ intervalMs, log, ...deps }: SweepOptions): Loop {
  return startDatabaseLoop('sweep for expiring licences', log, intervalMs, async (signal) =>
    (await sendExpiringNotices(deps, signal)) > 0 ? undefined : 'idle',
  )
}

/** Sends all notices that are due. @returns how many */
export async function sendExpiringNotices(
  { change }: SweepDependencies,
  signal?: AbortSignal,
): Promise<number> {
  let total = 0
  let sent: number
  do {
    sent = await change(sendNext, longLockTimeout)
    total += sent
  } while (sent > 0 && !signal?.aborted)
  return total
}

async function sendNext(tx: Transaction): Promise<number> {
  const licenceIds = await lockExpiring(tx, sentAtOnce)
  if (licenceIds.length === 0) return 0
  const expiring = await recordNotices(tx, licenceIds)
  await append(
    tx,
    ...expiring.map(({ id, account_id, application_id, plan_id, status, expires_on }) => ({
      accountId: account_id,
      applicationId: application_id,
      licencePlanId: plan_id,
      payload: {
        case: 'licenceExpiring' as const,
        value: { licenceId: id, status, expiresOn: expires_on.toISOString() },
      },
    })),
  )
  return expiring.length
}
