import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import { lockCaps, pausePeriods } from './cap-queries.ts'
import type { CapRow } from './cap-queries.ts'
import { addToPeriods, insertFeeEntries } from './ledger-queries.ts'
import type { NewFeeEntry, PeriodSpent } from './ledger-queries.ts'

export interface Reached {
  accountId: string
  applicationId: string
  period: string
  capMinor: bigint
  spentMinor: bigint
}

/**
 * Adds entries to the ledger and to the sums of their periods, and pauses periods that reach their cap. It locks the caps of
 * the accounts in the order of their ids. Call it last in a transaction, because other transactions of the accounts wait for
 * these locks.
 */
export async function postEntries(tx: Transaction, entries: NewFeeEntry[]): Promise<void> {
  if (entries.length === 0) return
  const caps = await lockCaps(
    tx,
    entries.map((entry) => entry.account_id),
  )
  await insertFeeEntries(tx, entries)
  const spent = await addToPeriods(tx, entries)
  await reachCaps(tx, findReachedCaps(caps, spent, entries))
}

/** Finds the entry by which each period reached its cap, among these entries in their order. */
export function findReachedCaps(
  caps: ReadonlyMap<string, CapRow>,
  spent: PeriodSpent[],
  entries: Pick<NewFeeEntry, 'account_id' | 'application_id' | 'period' | 'currency' | 'amount_minor'>[],
): Reached[] {
  return spent.flatMap((period): Reached[] => {
    const cap = caps.get(period.account_id)
    if (!cap || cap.cap_minor === null || cap.currency !== period.currency) return []
    const own = entries.filter(
      (entry) =>
        entry.account_id === period.account_id &&
        entry.period === period.period &&
        entry.currency === period.currency,
    )
    let running = period.spent_minor - own.reduce((sum, entry) => sum + entry.amount_minor, 0n)
    for (const { amount_minor: amount, application_id: applicationId } of own) {
      running += amount
      if (amount <= 0n || running < cap.cap_minor) continue
      return [
        {
          accountId: period.account_id,
          applicationId,
          period: period.period,
          capMinor: cap.cap_minor,
          spentMinor: running,
        },
      ]
    }
    return []
  })
}

/** Pauses the periods. The event of a period is sent once, however often its cap is reached. */
export async function reachCaps(tx: Transaction, reached: Reached[]): Promise<void> {
  if (reached.length === 0) return
  const first = await pausePeriods(
    tx,
    reached.map(({ accountId: account_id, period }) => ({ account_id, period })),
  )
  await append(
    tx,
    ...reached
      .filter(({ accountId, period }) => first.has(`${accountId} ${period}`))
      .map(({ accountId, applicationId, period, capMinor, spentMinor }) => ({
        accountId,
        applicationId,
        payload: { case: 'spendCapReached' as const, value: { period, capMinor, spentMinor } },
      })),
  )
}
