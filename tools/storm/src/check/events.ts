import type { HistoryType } from '@licensing/proto/closed-sets'
import { createHmac } from 'node:crypto'
import { baseOf } from '../outcome.ts'
import type { Arrival, HistoryEntry, Outcome } from '../outcome.ts'
import { historiesOf } from './histories.ts'
import { groupBy, indexBy, isAcknowledged, once, same, sentTo, type Rule } from './rule.ts'

const typed = ({ events }: Outcome, type: string) => events.filter((event) => event.type === type)
const bySequence = (one: { sequence: number }, other: { sequence: number }) => one.sequence - other.sequence

/** Each account's sequence starts at 1 and has no gap and no duplicate, and no event is in the feed twice. */
export const sequences: Rule = function* ({ accounts, events }) {
  for (const { accountId } of accounts) {
    const found = events.filter((event) => event.accountId === accountId).toSorted(bySequence)
    const wrong = found.find(({ sequence }, place) => sequence !== place + 1)
    if (wrong) yield `the sequence of ${accountId} has a gap or a duplicate at ${wrong.sequence}`
  }
  yield* once(
    events.map(({ id }) => id),
    'is in the feed twice',
  )
}

/** Whether a change with this entry in the history has an event. */
const hasEvent: Record<HistoryType, boolean> = {
  created: true,
  trial_started: true,
  plan_changed: true,
  suspended: true,
  reactivated: true,
  revoked: true,
  expired: true,
  retired: true,
  downgraded: true,
  issued: false,
  imported: false,
  renewed: false,
  migrated: false,
  changed: false,
  activation_freed: false,
  key_rotated: false,
}
const changes = (Object.keys(hasEvent) as HistoryType[]).filter((type) => hasEvent[type])

function emitted({ type, from, to }: HistoryEntry): string[] {
  // A second reason for a suspension does not change the status, so it has no event.
  return !hasEvent[type] || (type === 'suspended' && from === to) ? [] : [`licence.${type} ${to}`]
}

/** Each change of a licence has one event, in the order of the changes. */
export const oneEventAChange: Rule = function* (outcome) {
  const histories = historiesOf(outcome)
  const ofLicences = changes.flatMap((change) => typed(outcome, `licence.${change}`)).toSorted(bySequence)
  const events = groupBy(ofLicences, ({ object }) => String(object['licence_id']))
  for (const id of new Set([...histories.keys(), ...events.keys()])) {
    const changed = (histories.get(id) ?? []).flatMap(emitted).join(', ')
    const texts = (events.get(id) ?? []).map(({ type, object }) => `${type} ${String(object['status'])}`)
    if (changed !== texts.join(', '))
      yield `${id} changed by [${changed}] and its events are [${texts.join(', ')}]`
  }
}

/** Every provisioned checkout, processed refund and reached cap has its event, once. */
export const paymentEvents: Rule = function* (outcome) {
  const paymentOf = indexBy(outcome.payments, ({ id }) => id)
  const named = (type: string, ...fields: string[]) =>
    typed(outcome, type).map(({ object }) => fields.map((field) => String(object[field])).join(' '))
  const provisioned = outcome.sessions
    .filter(({ status }) => status === 'provisioned')
    .map(({ licenceId, amount }) => `${licenceId} ${amount}`)
  yield* same('payment.succeeded of', provisioned, named('payment.succeeded', 'licence_id', 'amount'))
  const processed = outcome.refunds
    .filter((refund) => refund.processed)
    .map(({ paymentId, amount, lane }) => {
      const { licenceId, chargeRef, saleId } = paymentOf.get(paymentId) ?? {}
      return `${licenceId} ${chargeRef ?? saleId} ${amount} ${lane}`
    })
  const refunds = named('refund.processed', 'licence_id', 'charge_ref', 'amount', 'lane')
  yield* same('refund.processed of', processed, refunds)
  const reached = outcome.capMinor.flatMap((cap) => Array.from({ length: cap.reached }, () => cap.accountId))
  const caps = typed(outcome, 'spend_cap.reached').map(({ accountId }) => accountId)
  yield* same('spend_cap.reached of', reached, caps)
}

/** A paid session or a sale that could not be provisioned has exactly one event, even if it was provisioned later. */
export const failedProvisions: Rule = function* (outcome) {
  const reported = typed(outcome, 'payment.provision_failed').map(({ object }) =>
    String(object['session_id']),
  )
  const failed = [...outcome.sessions, ...outcome.sales]
    .filter(({ id, status }) => status === 'provision_failed' || reported.includes(id))
    .map(({ id }) => id)
  yield* same('payment.provision_failed of', failed, reported)
}

export const testEvents: Rule = function* (outcome) {
  const tests = sentTo(outcome, 'test')
  const found = new Set(typed(outcome, 'webhook.test').map(({ id }) => id))
  const answered = new Set(tests.filter(isAcknowledged).map(({ body }) => String(body['event_id'])))
  for (const id of answered)
    if (!found.has(id)) yield `test event ${id} was acknowledged and is not in the feed`
  const open = tests.filter((each) => each.answered === 'unknown').length
  const unasked = found.difference(answered).size
  if (unasked > open) yield `${unasked} test events were not acknowledged, and ${open} requests are open`
}

/** Clients that followed the feed during the storm got the same events that it has now, without a gap. */
export const feedReads: Rule = function* ({ feedReads, events }) {
  const now = indexBy(events, ({ accountId, sequence }) => `${accountId} ${sequence}`)
  for (const { accountId, events: read } of feedReads)
    for (const [place, { id, sequence }] of read.entries())
      if (sequence !== place + 1 || now.get(`${accountId} ${sequence}`)?.id !== id)
        yield `a reader of ${accountId} got ${id} (${sequence}) in place ${place + 1}`
}

/** Every event that was recorded while an endpoint existed has exactly one delivery to it. */
export const oneDeliveryEach: Rule = function* (outcome) {
  // A test event is sent only to its endpoint.
  const tests = sentTo(outcome, 'test')
  const targets = new Map(tests.map(({ asked, body }) => [String(body['event_id']), asked.endpointId]))
  // The time of the answer, because an endpoint exists from its commit, which is later than its timestamp.
  const made = sentTo(outcome, 'create endpoint').filter(isAcknowledged)
  const registeredAt = new Map(made.map(({ asked, to }) => [asked.url, to]))
  const pairs = outcome.deliveries.map(({ endpointId, eventId }) => `${endpointId} ${eventId}`)
  yield* once(pairs, 'has two deliveries')
  const known = new Set(pairs)
  const appOf = new Map([...outcome.endpoints, ...outcome.events].map(({ id, appId }) => [id, appId]))
  for (const { id, endpointId, eventId } of outcome.deliveries)
    if (appOf.get(endpointId) !== appOf.get(eventId))
      yield `delivery ${id} has an event that its endpoint must not get`
  for (const endpoint of outcome.endpoints.filter(({ status }) => status === 'enabled'))
    for (const { id, type, appId, createdAt } of outcome.events) {
      const from = registeredAt.get(baseOf(endpoint.url)) ?? Number.POSITIVE_INFINITY
      const isDue = type === 'webhook.test' ? targets.get(id) === endpoint.id : createdAt > from
      if (isDue && endpoint.appId === appId && !known.has(`${endpoint.id} ${id}`))
        yield `event ${id} (${type}) has no delivery to ${endpoint.id}`
    }
}

/** An enabled endpoint has received all its events. The status of its deliveries is correct, and no delivery is pending. */
export const delivered: Rule = function* ({ deliveries, endpoints, arrivals }) {
  const endpointOf = indexBy(endpoints, ({ id }) => id)
  const answered = arrivals.filter((arrival) => arrival.accepted)
  const accepted = new Set(answered.map(({ url, eventId }) => `${baseOf(url)} ${eventId}`))
  for (const { id, endpointId, eventId, status } of deliveries) {
    const endpoint = endpointOf.get(endpointId)
    if (!endpoint) yield `delivery ${id} is to ${endpointId}, which does not exist`
    else if (status === 'delivered' && !accepted.has(`${baseOf(endpoint.url)} ${eventId}`))
      yield `delivery ${id} says delivered and ${eventId} never arrived`
    else if (
      status !== 'delivered' &&
      (endpoint.status === 'disabled' ? status === 'pending' : !endpoint.dead)
    )
      yield `delivery ${id} of ${eventId} to ${endpointId}, which is ${endpoint.status}, is ${status}`
  }
}

/** Every received event is in the feed with the same bytes, and is signed with a secret of the endpoint. */
export const arrivalsMatch: Rule = function* (outcome) {
  const eventOf = indexBy(outcome.events, ({ id }) => id)
  const endpointOf = indexBy(outcome.endpoints, ({ url }) => baseOf(url))
  const secrets = secretsByUrl(outcome)
  for (const arrival of outcome.arrivals) {
    const { eventId, body } = arrival
    const url = baseOf(arrival.url)
    const event = eventOf.get(eventId)
    if (!event) yield `${eventId} arrived and is not in the feed`
    else if (endpointOf.get(url)?.appId !== event.appId)
      yield `${eventId} arrived at another application's endpoint`
    else if (event.body !== body) yield `${eventId} arrived with other bytes than the feed's`
    else if (!isSigned(arrival, secrets.get(url)))
      yield `${eventId} arrived at ${url} with a signature of another secret`
  }
}

/** All secrets of each endpoint; absent if a request without an answer may have created another secret. */
function secretsByUrl(outcome: Outcome): Map<string, string[]> {
  const urlOf = new Map(outcome.endpoints.map(({ id, url }) => [id, baseOf(url)]))
  const shown = groupBy(sentTo(outcome, 'create endpoint', 'rotate'), ({ asked }) =>
    asked.do === 'rotate' ? (urlOf.get(asked.endpointId) ?? '') : asked.url,
  )
  const certain = [...shown].filter(([, all]) => all.every(({ answered }) => answered !== 'unknown'))
  const secretsOf = (all: Outcome['sent']) =>
    all.filter(isAcknowledged).map(({ body }) => String(body['secret']))
  return new Map(certain.map(([url, all]) => [url, secretsOf(all)]))
}

/** Whether each signature is of a secret; during the overlap of a rotation there are two. */
function isSigned({ body, signature }: Arrival, secrets: string[] | undefined): boolean {
  if (!secrets) return true
  const [, time = ''] = /^t=([0-9]+)(,v1=[0-9a-f]+){1,2}$/.exec(signature) ?? []
  const macs = secrets.map((secret) => createHmac('sha256', secret).update(`${time}.${body}`).digest('hex'))
  const signatures = [...signature.matchAll(/,v1=([0-9a-f]+)/g)].map(([, mac]) => mac!)
  return time !== '' && signatures.every((mac) => macs.includes(mac))
}

/** An attempt has a header only if the vendor has set it for the endpoint. */
export const headersMatch: Rule = function* (outcome) {
  const urlOf = new Map(outcome.endpoints.map(({ id, url }) => [id, baseOf(url)]))
  const set = new Set(
    sentTo(outcome, 'change endpoint').map(({ asked }) => `${urlOf.get(asked.endpointId)} ${asked.header}`),
  )
  for (const { url, eventId, header } of outcome.arrivals)
    if (header !== undefined && !set.has(`${baseOf(url)} ${header}`))
      yield `${eventId} arrived at ${url} with header ${header}, which was not set for it`
}
