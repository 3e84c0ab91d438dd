import { longLockTimeout } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import { append } from '@licensing/events/outbox'
import type { Loop } from '@licensing/process/loop'
import {
  deleteNoticeChecks,
  findPlansToNotify,
  lockNoticeChecks,
  queueNoticeChecks,
  recordNotices,
} from './notice-queries.ts'
import type { SweepDependencies, SweepOptions } from './sweep-expiries.ts'

const queuedAtOnce = 1_000
// A verb on one of these licences may wait for all of them.
const checkedAtOnce = 200

/** Sends `licence.expiring` in the background, and catches up after a downtime. Replicas share the work. */
export function startExpiringNotices({ intervalMs, log, ...deps }: SweepOptions): Loop {
  return startDatabaseLoop('sweep for expiring licences', log, intervalMs, async (signal) =>
    (await sendExpiringNotices(deps, signal)) > 0 ? undefined : 'idle',
  )
}

/** Sends all notices that are due. @returns how many */
export async function sendExpiringNotices(
  { sql, change }: SweepDependencies,
  signal?: AbortSignal,
): Promise<number> {
  for (const planId of await findPlansToNotify(sql)) {
    while (!signal?.aborted && (await queueNoticeChecks(sql, planId, queuedAtOnce)) === queuedAtOnce) {
      // Until fewer than a full batch are left.
    }
  }
  let sent = 0
  let last: bigint | undefined = 0n
  while (last !== undefined && !signal?.aborted) {
    const after: bigint = last
    const next = await change((tx) => sendNext(tx, after), longLockTimeout)
    sent += next.sent
    last = next.last
  }
  return sent
}

/** @returns how many notices it sent, and the last position if more may follow */
async function sendNext(tx: Transaction, after: bigint): Promise<{ sent: number; last: bigint | undefined }> {
  const checks = await lockNoticeChecks(tx, after, checkedAtOnce)
  const last = checks.length === checkedAtOnce ? checks.at(-1)!.position : undefined
  // A licence that another transaction has locked is checked in the next round.
  const locked = checks.filter((check) => check.locked)
  if (locked.length === 0) return { sent: 0, last }
  const expiring = await recordNotices(
    tx,
    locked.map((check) => check.licence_id),
  )
  await deleteNoticeChecks(
    tx,
    locked.map(({ position }) => position),
  )
  await append(
    tx,
    ...expiring.map(({ id, account_id, application_id, status, expires_on }) => ({
      accountId: account_id,
      applicationId: application_id,
      payload: {
        case: 'licenceExpiring' as const,
        value: { licenceId: id, status, expiresOn: expires_on.toISOString() },
      },
    })),
  )
  return { sent: expiring.length, last }
}
