import type { Transaction } from '@licensing/database/connect'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { alertVendors } from '../alerts/alert-vendor.ts'
import type { BillingDependencies } from '../dependencies.ts'
import { postEntries } from '../fees/post-entries.ts'
import { cancelFeeRefunds, insertFeeRefunds } from '../fees/fee-refund-queries.ts'
import { decide } from './decide.ts'
import {
  writeEffects,
  writeFulfilments,
  writePayments,
  writeQuestions,
  writeRefunds,
  writeSessions,
} from './decided-queries.ts'
import type { Decided } from './decided-queries.ts'
import { claimDue, claimDueOne, listDueAccounts, loadHistories, postponeDecision } from './history-queries.ts'
import type { DueFulfilment } from './history-queries.ts'
import { ShareOut } from './share-out.ts'
import { pauseAfter, timing } from './timing.ts'

const perRound = 200

/** From histories to what follows, a batch in one transaction. @returns a round; it answers how many it decided */
export function decideRounds(deps: BillingDependencies): () => Promise<number> {
  const share = new ShareOut(perRound, 100)
  return async () => {
    const { owners, each } = await share.next((after, most) => listDueAccounts(deps.sql, after, most))
    if (owners.length === 0) return 0
    let due: DueFulfilment[] = []
    try {
      await deps.outbox.transaction(async (tx) => {
        due = await claimDue(tx, owners, each)
        await decideBatch(deps, tx, due)
      })
    } catch (error) {
      if (isDatabaseUnavailable(error) || due.length === 0) throw error
      deps.log.warn({ err: error, purchases: due.length }, 'batch of purchases not decided: one by one')
      for (const one of due) await decideAlone(deps, one)
    }
    return due.length
  }
}

async function decideAlone(
  deps: BillingDependencies,
  { purchase_ref: ref, attempts }: DueFulfilment,
): Promise<void> {
  try {
    await deps.outbox.transaction(async (tx) => decideBatch(deps, tx, await claimDueOne(tx, ref)))
  } catch (error) {
    if (isDatabaseUnavailable(error)) throw error
    const failures = attempts + 1
    deps.log.error({ err: error, purchase: ref, attempts: failures }, 'purchase not decided')
    await postponeDecision(deps.sql, ref, pauseAfter(timing.retryDecision, failures))
  }
}

/** Ledger entries come last: others of the account wait for its cap. */
async function decideBatch(deps: BillingDependencies, tx: Transaction, due: DueFulfilment[]): Promise<void> {
  if (due.length === 0) return
  const now = new Date()
  const rules = { failuresBeforeSuspend: deps.failuresBeforeSuspend, graceMs: deps.subscriptionGraceMs }
  const decided = (await loadHistories(tx, due)).map((history): Decided => ({
    history,
    decision: decide(history, now, rules),
  }))
  await writePayments(tx, decided)
  await Promise.all([
    writeRefunds(tx, decided),
    writeEffects(tx, decided),
    writeQuestions(tx, decided),
    writeSessions(tx, decided),
    writeFulfilments(tx, decided),
  ])
  for (const { history, decision } of decided) {
    for (const alert of decision.alerts) {
      await alertVendors(tx, [history.session.account_id], alert, history.session.application_id)
    }
  }
  const canceled = decided.flatMap(({ decision }) => decision.canceledFeeRefunds)
  if (canceled.length > 0) await cancelFeeRefunds(tx, canceled)
  const feeRefunds = decided.flatMap(({ decision }) => decision.feeRefunds)
  if (feeRefunds.length > 0) await insertFeeRefunds(tx, feeRefunds)
  await postEntries(
    tx,
    decided.flatMap(({ history: { session }, decision }) =>
      decision.entries.map((entry) => ({
        ...entry,
        account_id: session.account_id,
        application_id: session.application_id,
      })),
    ),
  )
}
