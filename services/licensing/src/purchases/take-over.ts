import type { Transaction } from '@licensing/database/connect'
import type { Hurry } from '@licensing/database/patience'
import type { Outbox } from '@licensing/events/outbox'
import { Moved, untilSettled } from '../lifecycle/until-settled.ts'
import { basisAt, restsOn } from './holding.ts'
import { lockHoldings } from './apply-batch.ts'
import { noChanges } from './changes.ts'
import { databaseTime, lockPlansOf } from './purchase-queries.ts'
import type { Busy } from './purchase-queries.ts'
import { settleHolding } from './settle-holding.ts'
import { writeChanges } from './write-changes.ts'

interface TakingOver {
  /** By the database's clock, when absent. */
  now?: Date
  /** About licences, and plans, that other transactions hold. */
  busy: Busy
  /** Called first in the transaction. */
  hurry?: Hurry
}

/** Lets other purchases take licences over whose own have ended, where one stands. @returns whether one did */
export async function takeOver(outbox: Outbox, licenceIds: string[], how: TakingOver): Promise<boolean> {
  return untilSettled(() => outbox.transaction((tx) => takeOverIn(tx, licenceIds, how)))
}

// Lock order: plans before licences.
async function takeOverIn(
  tx: Transaction,
  licenceIds: string[],
  { now, busy, hurry }: TakingOver,
): Promise<boolean> {
  hurry?.(tx)
  const plans = await lockPlansOf(tx, licenceIds, [], busy)
  const holdings = await lockHoldings(tx, licenceIds, busy)
  const changes = noChanges(now ?? (await databaseTime(tx)))
  for (const holding of holdings.values()) {
    const { licence, purchases } = holding
    const rested = restsOn(holding)
    if (!rested) continue
    const possible = [licence.plan_id, ...purchases.map((purchase) => purchase.plan_id)]
    if (possible.some((planId) => !plans.has(planId))) {
      if (busy === 'skip') continue
      throw new Moved()
    }
    const after = basisAt(holding, changes.now)
    if (!after.stands || after.current === rested) continue
    const news = { kind: 'time' as const, rested, before: after, after }
    settleHolding(changes, holding, plans, { actor: 'sweep' }, news)
  }
  await writeChanges(tx, changes)
  return changes.licences.size > 0
}
