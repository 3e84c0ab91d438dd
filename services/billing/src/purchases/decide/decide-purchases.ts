import type { Transaction } from '@licensing/database/connect'
import { databaseTime } from '@licensing/database/time-queries'
import { alertVendors } from '../../alerts/alert-vendor.ts'
import type { BillingDependencies } from '../../dependencies.ts'
import { cancelFeeRefunds, insertFeeRefunds } from '../../fees/fee-refund-queries.ts'
import { postEntries } from '../../fees/post-entries.ts'
import { decide } from './decide.ts'
import type { Rules } from './decision.ts'
import { loadHistories, ownerOf, postponeDecision, writeDecided } from './decision-queries.ts'
import { createBatchRound } from '../../queues/queue-rounds.ts'
import { pauseAfter } from '@licensing/process/retry'
import { timing } from '../../timing.ts'
import { queues } from '../../queues/queue-queries.ts'
import type { DuePurchase } from '../../queues/queue-queries.ts'

const perRound = 200

/** @returns a round, which decides due purchases and returns how many it took */
export function createDecideRound(deps: BillingDependencies): () => Promise<number> {
  return createBatchRound(
    deps,
    queues.decide,
    perRound,
    (tx, due) => decideAll(deps, tx, due),
    async ({ purchase_ref: purchase, attempts }, error) => {
      const failures = attempts + 1
      deps.log.error({ err: error, purchase, attempts: failures }, 'purchase not decided')
      await postponeDecision(deps.sql, purchase, pauseAfter(timing.retryDecision, failures))
    },
  )
}

/**
 * Decides purchases that the transaction has locked. Ledger entries come last: they lock the caps of the accounts, for which
 * other transactions wait.
 */
export async function decideAll(
  deps: BillingDependencies,
  tx: Transaction,
  due: Pick<DuePurchase, 'purchase_ref' | 'ordered_at'>[],
): Promise<void> {
  const now = await databaseTime(tx)
  const histories = await loadHistories(tx, due)
  const decided = histories.map((history) => {
    return { history, decision: decide(history, now, rulesFor(deps, history.session.sale_id === null)) }
  })
  await writeDecided(tx, decided)
  for (const { history, decision } of decided) {
    const { account_id: accountId, application_id: applicationId } = history.session
    for (const alert of decision.alerts) await alertVendors(tx, [accountId], alert, applicationId)
  }
  const decisions = decided.map(({ decision }) => decision)
  const cancelled = decisions.flatMap((decision) => decision.cancelledFeeRefunds)
  await cancelFeeRefunds(tx, cancelled)
  const feeRefunds = decisions.flatMap((decision) => decision.feeRefunds)
  await insertFeeRefunds(tx, feeRefunds)
  const entries = decided.flatMap(({ history, decision }) =>
    decision.entries.map((entry) => ({ ...entry, ...ownerOf(history.session) })),
  )
  await postEntries(tx, entries)
}

/**
 * The processor dates events by the second, repeats them late and in any order, and can be asked. Another shop reports each fact
 * once, with its own end.
 */
function rulesFor(deps: BillingDependencies, atProcessor: boolean): Rules {
  const { failuresBeforeSuspend, subscriptionGraceMs: graceMs } = deps
  return atProcessor
    ? { failuresBeforeSuspend, graceMs, tickMs: 1_000, othersArriveMs: timing.othersArrive, hasAnswers: true }
    : { failuresBeforeSuspend, graceMs: 0, tickMs: 1, othersArriveMs: 0, hasAnswers: false }
}
