import type { Envelope, HistoryEntry } from '../outcome.ts'
import { historiesOf } from './histories.ts'
import { groupBy, sentTo, duplicates, type Rule } from './rule.ts'

/** Each account's sequence starts at 1 and has no gap and no duplicate, and no event is in the feed twice. */
export const sequences: Rule = ({ accounts, events }) => [
  ...accounts.flatMap(({ accountId }) => {
    const found = events
      .filter((event) => event.accountId === accountId)
      .map(({ sequence }) => sequence)
      .toSorted((one, other) => one - other)
    const at = found.findIndex((sequence, place) => sequence !== place + 1)
    return at === -1 ? [] : [`the events of ${accountId} have ${found[at]} where ${at + 1} should be`]
  }),
  ...duplicates(events.map(({ id }) => id)).map((id) => `event ${id} is in the feed twice`),
]

const ofLicences = new Set([
  'licence.created',
  'licence.trial_started',
  'licence.plan_changed',
  'licence.suspended',
  'licence.reactivated',
  'licence.revoked',
  'licence.expired',
  'licence.retired',
  'licence.downgraded',
])

const silent = new Set(['issued', 'imported', 'renewed', 'migrated', 'changed', 'activation_freed'])

function emitted({ type, from, to }: HistoryEntry): string[] {
  if (silent.has(type)) return []
  // A second reason for a suspension does not change the status, so it has no event.
  if (type === 'suspended' && from === to) return []
  return [`licence.${type} ${to}`]
}

/** Each change of a licence has one event, in the order of the changes. */
export const oneEventAChange: Rule = (outcome) => {
  const histories = historiesOf(outcome)
  const sorted = outcome.events
    .filter(({ type }) => ofLicences.has(type))
    .toSorted((one, other) => one.sequence - other.sequence)
  const byLicence = groupBy(sorted, ({ object }) => String(object['licence_id']))
  const ids = new Set([...histories.keys(), ...byLicence.keys()])
  return [...ids].flatMap((id) => {
    const changes = (histories.get(id) ?? []).flatMap(emitted)
    const reported = (byLicence.get(id) ?? []).map(
      ({ type, object }) => `${type} ${String(object['status'])}`,
    )
    const same =
      changes.length === reported.length && changes.every((change, place) => change === reported[place])
    return same ? [] : [`${id} changed by ${list(changes)} and its events are ${list(reported)}`]
  })
}

function list(items: string[]): string {
  return items.length === 0 ? 'nothing' : items.join(', ')
}

function countBy(events: Envelope[], key: (event: Envelope) => string): Map<string, number> {
  return new Map([...groupBy(events, key)].map(([name, same]) => [name, same.length]))
}

function differences(what: string, expected: Map<string, number>, found: Map<string, number>): string[] {
  return [...new Set([...expected.keys(), ...found.keys()])]
    .filter((key) => (expected.get(key) ?? 0) !== (found.get(key) ?? 0))
    .map((key) => `${what} ${key}: ${expected.get(key) ?? 0} expected, ${found.get(key) ?? 0} in the feed`)
}

/** Every provisioned checkout, processed refund and reached cap has its event, once. */
export const paymentEvents: Rule = ({ events, sessions, refunds, payments, capMinor }) => {
  const of = (type: string) => events.filter((event) => event.type === type)
  const counts = (keys: string[]) =>
    new Map([...Map.groupBy(keys, (key) => key)].map(([key, same]) => [key, same.length]))
  const paymentOf = new Map(payments.map((payment) => [payment.id, payment]))
  const provisioned = sessions.filter(({ status }) => status === 'provisioned')
  const processed = refunds
    .filter((refund) => refund.processed)
    .map(({ paymentId, amount, lane }) => {
      const payment = paymentOf.get(paymentId)
      return `${payment?.licenceId} ${payment?.chargeRef} ${amount} ${lane}`
    })
  return [
    ...differences(
      'payment.succeeded of',
      counts(provisioned.map(({ licenceId, amount }) => `${licenceId} ${amount}`)),
      countBy(
        of('payment.succeeded'),
        ({ object }) => `${String(object['licence_id'])} ${String(object['amount'])}`,
      ),
    ),
    ...differences(
      'refund.processed of',
      counts(processed),
      countBy(
        of('refund.processed'),
        ({ object: { licence_id: id, charge_ref: charge, amount, lane } }) =>
          `${String(id)} ${String(charge)} ${String(amount)} ${String(lane)}`,
      ),
    ),
    ...differences(
      'spend_cap.reached of',
      new Map(
        capMinor.filter(({ reached }) => reached > 0).map(({ accountId, reached }) => [accountId, reached]),
      ),
      countBy(of('spend_cap.reached'), ({ accountId }) => accountId),
    ),
  ]
}

/** A paid session or a sale that could not be provisioned has exactly one event, even if it was provisioned later. */
export const failedProvisions: Rule = ({ events, sessions, sales }) => {
  const reported = countBy(
    events.filter(({ type }) => type === 'payment.provision_failed'),
    ({ object }) => String(object['session_id']),
  )
  const known = new Map([...sessions, ...sales].map(({ id, status }) => [id, status]))
  const missing = [...known]
    .filter(([id, status]) => status === 'provision_failed' && !reported.has(id))
    .map(([id]) => `${id} could not be provisioned and no event says so`)
  const wrong = [...reported]
    .filter(([id, times]) => times > 1 || !known.has(id))
    .map(([id, times]) => `payment.provision_failed of ${id} is in the feed ${times} times`)
  return [...missing, ...wrong]
}

export const testEvents: Rule = (outcome) => {
  const tests = sentTo(outcome, 'test')
  const found = new Set(outcome.events.filter(({ type }) => type === 'webhook.test').map(({ id }) => id))
  const answered = tests
    .filter((each) => each.answered === 'acknowledged')
    .map(({ body }) => String(body['event_id']))
  const open = tests.filter((each) => each.answered === 'unknown').length
  const unasked = [...found].filter((id) => !answered.includes(id)).length
  return [
    ...answered
      .filter((id) => !found.has(id))
      .map((id) => `test event ${id} was acknowledged and is not in the feed`),
    ...(unasked > open
      ? [`${unasked} test events are in the feed that were not acknowledged, ${open} are open`]
      : []),
  ]
}

/** Clients that followed the feed during the storm got the same events that it has now, without a gap. */
export const feedReads: Rule = ({ feedReads, events }) => {
  const now = new Map(events.map((event) => [`${event.accountId} ${event.sequence}`, event.id]))
  return feedReads.flatMap((read) =>
    read.events.flatMap(({ id, sequence }, place) => {
      if (sequence !== place + 1) return [`a reader of ${read.accountId} got ${sequence} after ${place}`]
      const is = now.get(`${read.accountId} ${sequence}`)
      return is === id ? [] : [`event ${sequence} of ${read.accountId} was ${id} when read and is ${is} now`]
    }),
  )
}
