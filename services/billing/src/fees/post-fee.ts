import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { lockCap } from './cap-queries.ts'
import { addToPeriod, insertFeeEntry } from './ledger-queries.ts'
import type { NewFeeEntry } from './ledger-queries.ts'
import { reachCap } from './spend-cap.ts'

/**
 * Adds an entry to the ledger, once for each payment and kind, and to its period; where that brings the period to the
 * cap, the cap is reached. Comes last in its transaction: others of the account wait for the cap's lock.
 *
 * @returns the entry's id, or undefined where it was posted before
 */
export async function postFee(tx: Transaction, entry: Omit<NewFeeEntry, 'id'>): Promise<string | undefined> {
  const id = newId('fee')
  const cap = await lockCap(tx, entry.account_id)
  if (!(await insertFeeEntry(tx, { id, ...entry }))) return undefined
  const spentMinor = await addToPeriod(tx, entry)
  if (
    cap.cap_minor !== null &&
    cap.currency === entry.currency &&
    spentMinor >= cap.cap_minor &&
    entry.amount_minor > 0n
  ) {
    await reachCap(tx, {
      accountId: entry.account_id,
      applicationId: entry.application_id,
      period: entry.period,
      capMinor: cap.cap_minor,
      spentMinor,
    })
  }
  return id
}
