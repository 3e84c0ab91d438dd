import { messageOf } from '@licensing/grpc/fields'
import { audit, changesOf } from '@licensing/changes/audit'
import type { Transaction, Sql } from '@licensing/database/connect'
import { invalid } from '@licensing/grpc/errors'
import { SpendCapSchema } from '@licensing/proto/billing'
import type { SpendCap } from '@licensing/proto/billing'
import { currentTime } from '@licensing/process/clock'
import { checkMoney } from '../checks.ts'
import type { BillingDependencies, Handler } from '../dependencies.ts'
import {
  endPause,
  findSpent,
  lockCaps,
  writeCap,
  findZeroCapsUnreached,
  findCapStatus,
} from './cap-queries.ts'
import type { CapRow } from './cap-queries.ts'
import { periodOf } from './fee.ts'
import { latestChargedApplication } from './ledger-queries.ts'
import { reachCaps } from './post-entries.ts'

export const getSpendCap: Handler<'getSpendCap'> = async ({ sql }, { accountId }) => {
  return spendCapMessage(sql, accountId, periodOf(currentTime()))
}

export const setSpendCap: Handler<'setSpendCap'> = async (deps, request) => {
  const { accountId } = request
  const wanted = { cap_minor: request.capMinor ?? null, currency: request.currency ?? null }
  if (wanted.cap_minor !== null) {
    if (wanted.cap_minor < 0n) throw invalid('/cap_minor', 'must be at least 0')
    checkMoney(0n, wanted.currency ?? '')
  }
  const period = periodOf(currentTime())
  const change = (oldest?: string) =>
    deps.change(async (tx) => {
      const before = await lockedCap(tx, accountId)
      const shown = await spendCapMessage(tx, accountId, period)
      if (!(await changeCap(tx, accountId, period, { before, wanted, oldest }))) return false
      const changes = changesOf(SpendCapSchema, shown, await spendCapMessage(tx, accountId, period))
      await audit(tx, { accountId, resourceId: accountId, changes })
      return true
    })
  // Catalog is called outside the transaction, because the transaction holds a lock.
  if (!(await change())) await change(await oldestApplication(deps, accountId))
  return spendCapMessage(deps.sql, accountId, period)
}

async function lockedCap(tx: Transaction, accountId: string): Promise<CapRow> {
  return (await lockCaps(tx, [accountId])).get(accountId)!
}

/**
 * A cap above the spent amount, or no cap, ends the pause. A cap at or below the spent amount starts it.
 *
 * @param oldest the account's oldest application, which `spend_cap.reached` names if nothing was charged in the period
 * @returns false if it needs `oldest`; then nothing is changed
 */
async function changeCap(
  tx: Transaction,
  accountId: string,
  period: string,
  { before, wanted, oldest }: { before: CapRow; wanted: CapRow; oldest: string | undefined },
): Promise<boolean> {
  const { cap_minor: capMinor, currency } = wanted
  if (capMinor === null || currency === null) {
    await writeCap(tx, accountId, { cap_minor: null, currency: currency ?? before.currency })
    await endPause(tx, accountId)
    return true
  }
  const spentMinor = await findSpent(tx, accountId, period, currency)
  if (spentMinor >= capMinor) {
    const applicationId = (await latestChargedApplication(tx, accountId, period)) ?? oldest
    if (applicationId === undefined) return false
    await writeCap(tx, accountId, wanted)
    await reachCaps(tx, [{ accountId, applicationId, period, capMinor, spentMinor }])
    return true
  }
  await writeCap(tx, accountId, wanted)
  const isRaised = before.cap_minor === null || before.currency !== currency || capMinor > before.cap_minor
  if (isRaised) await endPause(tx, accountId)
  return true
}

/** Catalog lists applications from the newest to the oldest. */
export async function oldestApplication(
  { catalog }: Pick<BillingDependencies, 'catalog'>,
  accountId: string,
): Promise<string> {
  let beforeId = ''
  for (;;) {
    const { applications, hasMore } = await catalog.listApplications({ accountId, limit: 200, beforeId })
    beforeId = applications.at(-1)?.id ?? beforeId
    if (!hasMore) return beforeId
  }
}

const reportedTogether = 50

/** Reports caps of zero, which are reached at the start of each period. */
export async function reachZeroCaps(deps: BillingDependencies): Promise<void> {
  const period = periodOf(currentTime())
  for (const accountId of await findZeroCapsUnreached(deps.sql, period, reportedTogether)) {
    const charged = await latestChargedApplication(deps.sql, accountId, period)
    const applicationId = charged ?? (await oldestApplication(deps, accountId))
    await deps.change((tx) =>
      reachCaps(tx, [{ accountId, applicationId, period, capMinor: 0n, spentMinor: 0n }]),
    )
  }
}

async function spendCapMessage(sql: Sql, accountId: string, period: string): Promise<SpendCap> {
  return messageOf(SpendCapSchema, { period, ...(await findCapStatus(sql, accountId, period)) })
}
