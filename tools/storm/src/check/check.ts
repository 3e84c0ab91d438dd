import type { Outcome } from '../outcome.ts'
import * as catalog from './catalog-writes.ts'
import * as deliveries from './deliveries.ts'
import * as feeds from './feeds.ts'
import * as figures from './figures.ts'
import * as histories from './histories.ts'
import { leasesWithinLimit } from './leases.ts'
import * as licences from './licence-writes.ts'
import * as money from './money.ts'
import type { Rule } from './rule.ts'
import { oneTrialEach } from './trials.ts'

/** What must hold after every storm. */
export const rules = {
  'an issue is there as it was answered': licences.issuedOnce,
  'an import is there as it was answered': licences.importedOnce,
  'every licence was asked for': licences.nothingUnasked,
  'activations are as they were answered': licences.activations,
  'leases that have not ended never exceed max_concurrent': leasesWithinLimit,
  'a machine has one trial of an application': oneTrialEach,
  'a list shows each row once': licences.pages,
  'a history is one legal order': histories.oneLegalOrder,
  'a verb is in the history as it was answered': histories.verbsOnce,
  'an archive suspends what it says': histories.archivesCount,
  'what was answered first happened first': histories.orderOfAnswers,
  'an answer says what the verb did': histories.answersMatch,
  'a refusal names a status that was': histories.refusalsMatch,
  'plans are as they were answered': catalog.plansOnce,
  'a plan has the status it was given': catalog.planStatuses,
  'copies of plans are the plans': catalog.planCopies,
  'no licence is active on a retired plan': catalog.noActiveOnRetired,
  'definitions are as they were answered': catalog.definitions,
  'API keys are as they were answered': catalog.apiKeys,
  'the spend cap is as it was answered': catalog.caps,
  'endpoints are as they were answered': catalog.endpoints,
  'sequences have no gap and no twin': feeds.sequences,
  'a change has one event, in order': feeds.oneEventAChange,
  'a payment has its events': feeds.paymentEvents,
  'a failed provision is reported once': feeds.failedProvisions,
  'test events are as they were answered': feeds.testEvents,
  'the feed never changes': feeds.feedReads,
  'an event has one delivery an endpoint': deliveries.oneDeliveryEach,
  'a delivery has arrived': deliveries.delivered,
  'what arrives is what was recorded': deliveries.arrivalsMatch,
  'sales and checkouts are as they were answered': money.salesOnce,
  'payments are what was paid': money.paymentsMatch,
  'licensing and billing agree': money.provisionsMatch,
  'the ledger is right': money.ledger,
  'refunds are what the processor refunded': money.refundsMatch,
  'a licence follows its payment': money.consequences,
  'counters are what is counted': figures.counters,
  'plans count their active licences': figures.activeLicences,
  'the revocation list is complete': figures.revocations,
  'licences past their end are expired': figures.swept,
  'nothing is left over': figures.leftovers,
  'no request takes over a minute': figures.requestTimes,
  'ready within ten seconds, or as long as the first start took': figures.readyTimes,
  'no process ends by itself': figures.crashes,
} as const satisfies Record<string, Rule>

export type RuleName = keyof typeof rules

/** Something that must not be, in a sentence. */
export interface Violation {
  rule: RuleName
  detail: string
}

/** Every violation in the data that a storm has left; empty if there is none. */
export function check(outcome: Outcome): Violation[] {
  return Object.entries(rules).flatMap(([rule, find]) =>
    find(outcome).map((detail) => ({ rule: rule as RuleName, detail })),
  )
}
