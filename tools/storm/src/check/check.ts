import type { Outcome } from '../outcome.ts'
import * as auditLog from './audit-log.ts'
import * as catalog from './catalog.ts'
import * as events from './events.ts'
import * as figures from './figures.ts'
import * as histories from './histories.ts'
import * as licences from './licences.ts'
import * as money from './money.ts'
import type { Rule } from './rule.ts'

/** The rules that must hold after every storm. */
export const rules = {
  'each issue made the licence that was answered': licences.issuedOnce,
  'each import made the licence that was answered': licences.importedOnce,
  'every licence was requested': licences.nothingUnasked,
  'activations match the answers': licences.activations,
  'removals by customers match the answers, and are few a day': licences.removedByCustomers,
  'leases that have not ended never exceed max_concurrent': licences.leasesWithinLimit,
  'a machine has one trial of an application': licences.oneTrialEach,
  'a list shows each row once': licences.pages,
  'a history has only legal transitions': histories.oneLegalOrder,
  'the history has each acknowledged verb once': histories.verbsOnce,
  'an archive suspends as many licences as it answered': histories.archivesCount,
  'changes are in the order of their answers': histories.orderOfAnswers,
  'an answer has the status that the verb leads to': histories.answersMatch,
  'a refusal names a status that the licence had': histories.refusalsMatch,
  'plans match the answers': catalog.plansOnce,
  'a plan has the status that was set last': catalog.planStatuses,
  'copies of plans equal the plans': catalog.planCopies,
  'no licence is active on a retired plan': catalog.noActiveOnRetired,
  'definitions match the answers': catalog.definitions,
  'API keys match the answers': catalog.apiKeys,
  'the spend cap matches the answers': catalog.caps,
  'endpoints match the answers': catalog.endpoints,
  'an endpoint has what was set last': catalog.endpointChanges,
  'the audit log has each change once': auditLog.entries,
  'sequences have no gap and no duplicate': events.sequences,
  'each change has one event, in order': events.oneEventAChange,
  'each payment has its events': events.paymentEvents,
  'a failed provision is reported once': events.failedProvisions,
  'test events match the answers': events.testEvents,
  'the feed never changes': events.feedReads,
  'an event has one delivery per endpoint': events.oneDeliveryEach,
  'a delivery has arrived': events.delivered,
  'received events equal the recorded events': events.arrivalsMatch,
  'an attempt has only headers of its endpoint': events.headersMatch,
  'sales and checkouts match the answers': money.salesOnce,
  'payments match the processor': money.paymentsMatch,
  'licensing and billing agree': money.provisionsMatch,
  'the ledger is right': money.ledger,
  'refunds match the processor': money.refundsMatch,
  'a licence follows its payment': money.consequences,
  'facts of other shops match the answers': money.saleFactsOnce,
  'a licence follows what another shop reports': money.saleConsequences,
  'counters match the counted rows': figures.counters,
  'plans count their active licences': figures.activeLicences,
  'the revocation list is complete': figures.revocations,
  'licences past their end are expired': figures.swept,
  'nothing is left over': figures.leftovers,
  'no request takes over a minute': figures.requestTimes,
  'ready within ten seconds, or as long as the first start took': figures.readyTimes,
  'no process ends by itself': figures.crashes,
} as const satisfies Record<string, Rule>

export type RuleName = keyof typeof rules

/** A broken rule, described in a sentence. */
export interface Violation {
  rule: RuleName
  detail: string
}

/** All violations in the outcome of a storm. */
export function check(outcome: Outcome): Violation[] {
  const names = Object.keys(rules) as RuleName[]
  return names.flatMap((rule) => [...rules[rule](outcome)].map((detail) => ({ rule, detail })))
}
