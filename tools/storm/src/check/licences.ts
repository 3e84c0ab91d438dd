import { createHash } from 'node:crypto'
import type { Answered, HistoryEntry, Outcome, Sent } from '../outcome.ts'
import { afterRemoval, asAnswered, groupBy, indexBy, isAcknowledged, isPossible, once } from './rule.ts'
import { removedBy, sentTo, type Rule } from './rule.ts'

/** Each idempotency key has exactly one licence: the answered one, as it was requested. */
export const issuedOnce: Rule = function* (outcome) {
  const tries = sentTo(outcome, 'issue').map(({ asked, answered, body }) => {
    return { asked, answered, key: `${asked.appId} ${asked.key}`, id: body['id'] as string | undefined }
  })
  const issued = outcome.licences
    .filter(({ idempotencyKey }) => idempotencyKey !== null)
    .map((licence) => ({ ...licence, key: `${licence.appId} ${licence.idempotencyKey}` }))
  yield* asAnswered('issue', tries, issued)
  const requests = indexBy(tries, ({ key }) => key)
  for (const { id, key, externalRef, planId } of issued) {
    const { asked } = requests.get(key) ?? {}
    if (asked && (asked.externalRef !== externalRef || asked.planId !== planId))
      yield `${id} of issue ${key} does not match the request`
  }
}

interface ImportedItem {
  result: string
  licence_id: string | null
}

/** Each legacy key has exactly one licence, the answered one, and only one import created it. */
export const importedOnce: Rule = function* (outcome) {
  const tries = sentTo(outcome, 'import').flatMap(({ asked, answered, body }) =>
    asked.items.map((item, place) => {
      const result = (body['items'] as ImportedItem[] | undefined)?.[place]
      const ofItem: Answered = result?.result === 'failed' ? 'refused' : answered
      const id = result?.licence_id
      return {
        key: `${asked.appId} ${item.legacyKey}`,
        answered: ofItem,
        id,
        made: result?.result === 'created',
      }
    }),
  )
  const imported = outcome.licences
    .filter(({ legacyKey }) => legacyKey !== null)
    .map(({ id, appId, legacyKey }) => ({ id, key: `${appId} ${legacyKey}` }))
  yield* asAnswered('import', tries, imported)
  const created = tries.filter(({ made }) => made).map(({ key }) => key)
  yield* once(created, 'was answered as created by two imports')
}

/** Every licence was requested by an issue, an import, a payment or a trial. */
export const nothingUnasked: Rule = function* (outcome) {
  const asked = new Set([
    ...sentTo(outcome, 'issue').map(({ asked: { appId, key } }) => `${appId} ${key}`),
    ...sentTo(outcome, 'import').flatMap(({ asked: { appId, items } }) =>
      items.map(({ legacyKey }) => `${appId} ${legacyKey}`),
    ),
    ...[...outcome.provisions, ...outcome.trials].map(({ licenceId }) => licenceId),
  ])
  for (const { id, appId, idempotencyKey, legacyKey } of outcome.licences) {
    const key = idempotencyKey ?? legacyKey
    if (!asked.has(key === null ? id : `${appId} ${key}`)) yield `nobody asked for ${id}`
  }
}

const maxReplaced = 5
const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10)

/** Each acknowledged activation exists once, unless it was freed or replaced, within the licence's limit. */
export const activations: Rule = function* (outcome) {
  const replaced = replacedIn(outcome)
  const freed = removedBy(sentTo(outcome, 'free', 'remove'), ({ asked }) => asked.activationId)
  for (const { cause } of replaced) freed.possible.add(cause!)
  const trialOf = indexBy(outcome.trials, ({ appId, fingerprintHash }) => `${appId} ${fingerprintHash}`)
  const tries = [
    ...sentTo(outcome, 'activate').map(({ asked, answered, body }) => {
      const left = afterRemoval(answered, String(body['activation_id']), freed)
      return {
        key: `${asked.licenceId} ${asked.fingerprint}`,
        answered: left,
        isPossible: isPossible({ answered }),
      }
    }),
    ...sentTo(outcome, 'try').map((each) => {
      const { appId, fingerprint } = each.asked
      const licenceId = trialOf.get(`${appId} ${hashOf(appId, fingerprint)}`)?.licenceId
      const answered: Answered = isPossible(each) ? 'unknown' : 'refused'
      return { key: `${licenceId} ${fingerprint}`, answered, isPossible: isPossible(each) }
    }),
  ]
  const rows = outcome.activations.map((each) => ({ ...each, key: `${each.licenceId} ${each.fingerprint}` }))
  const active = rows.filter(({ deactivated }) => !deactivated)
  yield* asAnswered('active activation', tries, active)
  const ever = tries
    .filter((each) => each.isPossible)
    .map(({ key }) => ({ key, answered: 'unknown' as const }))
  yield* asAnswered('activation', ever, rows)
  const counts = groupBy(rows, ({ licenceId }) => licenceId)
  for (const { id, maxActivations } of outcome.licences) {
    const count = counts.get(id)?.length ?? 0
    if (count > (maxActivations ?? count)) yield `${id} has ${count} activations of ${maxActivations}`
  }
  for (const [of, entries] of groupBy(replaced, ({ licenceId, at }) => `${licenceId} on ${dayOf(at)}`))
    if (entries.length > maxReplaced) yield `${entries.length} activations of ${of} were replaced`
}

const maxRemoved = 3

/** Each machine that a customer removed has one entry in the history, and a customer removes few a day. */
export const removedByCustomers: Rule = function* (outcome) {
  const asked = sentTo(outcome, 'remove').map((sent) => ({
    answered: sent.answered,
    key: sent.asked.activationId,
  }))
  const entries = outcome.history.filter(
    ({ type, actor }) => type === 'activation_freed' && actor === 'customer',
  )
  const rows = entries.map(({ cause }) => ({ key: String(cause) }))
  yield* asAnswered('removal of', asked, rows)
  for (const [of, removed] of groupBy(entries, ({ licenceId, at }) => `${licenceId} on ${dayOf(at)}`))
    if (removed.length > maxRemoved)
      yield `${removed.length} activations of ${of} were removed by the customer`
}

/** The entries of activations that another product replaced: they were freed without a request of their own product. */
function replacedIn(outcome: Outcome): HistoryEntry[] {
  const own = new Set(sentTo(outcome, 'free').map(({ asked }) => asked.activationId))
  const replacing = new Set(
    sentTo(outcome, 'activate').flatMap(({ asked }) => (asked.replaces ? asked.licenceId : [])),
  )
  return outcome.history.filter(
    ({ type, actor, licenceId, cause }) =>
      type === 'activation_freed' &&
      actor === 'product' &&
      replacing.has(licenceId) &&
      cause &&
      !own.has(cause),
  )
}

/** A period in which an activation certainly held a lease. */
interface LeasePeriod {
  licenceId: string
  activationId: string
  from: number
  until: number
}

/** At no time does the database or do the answers show more leases of a licence than it allows. */
export const leasesWithinLimit: Rule = function* (outcome) {
  const running = indexBy(outcome.leases, ({ licenceId }) => licenceId)
  const periods = groupBy(leasePeriods(outcome), ({ licenceId }) => licenceId)
  for (const { id, maxConcurrent } of outcome.licences) {
    const most = Math.max(running.get(id)?.running ?? 0, maxAtOnce(periods.get(id) ?? []))
    if (most > (maxConcurrent ?? most))
      yield `${id} had ${most} concurrent leases and allows ${maxConcurrent}`
  }
}

function maxAtOnce(periods: LeasePeriod[]): number {
  const counts = periods.map(({ from }) => {
    const holders = periods.filter((each) => each.from <= from && from < each.until)
    return new Set(holders.map(({ activationId }) => activationId)).size
  })
  return Math.max(0, ...counts)
}

function leasePeriods(outcome: Outcome): LeasePeriod[] {
  const ended = groupBy(sentTo(outcome, 'release', 'free', 'remove'), ({ asked }) => asked.activationId)
  const entries = outcome.history.filter(({ type }) => type === 'activation_freed')
  const freed = groupBy(entries, ({ cause }) => String(cause))
  return sentTo(outcome, 'activate', 'refresh').flatMap((sent) => {
    const { licence_id: licenceId, activation_id: id, lease_ends_at: endsAt } = sent.body
    if (!isAcknowledged(sent) || typeof endsAt !== 'string') return []
    const activationId = String(id)
    const ends = [
      Date.parse(endsAt),
      ...(ended.get(activationId) ?? []).filter((end) => mayFollow(sent, end)).map(({ from }) => from),
      ...(freed.get(activationId) ?? []).map(({ at }) => at),
    ]
    return [{ licenceId: String(licenceId), activationId, from: sent.to, until: Math.min(...ends) }]
  })
}

/** Whether `later` may have been executed after `sent`. A request without an answer may be executed at any later time. */
const mayFollow = (sent: Sent, later: Sent) => later.answered === 'unknown' || later.to > sent.from

/** The hash that licensing stores of the fingerprint of a machine that has had its trial. */
export const hashOf = (appId: string, fingerprint: string) =>
  createHash('sha256').update(`${appId} ${fingerprint}`).digest('hex')

/** Each machine has one trial of an application: the answered licence, started once. */
export const oneTrialEach: Rule = function* (outcome) {
  const tries = sentTo(outcome, 'try').map(({ asked: { appId, fingerprint }, answered, status, body }) => {
    return {
      answered,
      status,
      key: `${appId} ${hashOf(appId, fingerprint)}`,
      id: body['licence_id'] as string,
    }
  })
  const trials = outcome.trials.map(({ appId, fingerprintHash, licenceId }) => {
    return { key: `${appId} ${fingerprintHash}`, id: licenceId }
  })
  yield* asAnswered('the trial of', tries, trials)
  const started = tries.filter(({ status }) => status === 201).map(({ key }) => key)
  yield* once(started, 'was answered twice that its trial has started')
  const ids = trials.map(({ id }) => id)
  yield* once(ids, 'is the trial of two machines')
  for (const { id, externalRef } of outcome.licences)
    if (externalRef === `trial_${id}` && !ids.includes(id))
      yield `${id} is a trial that belongs to no machine`
}

/** Reading a list page by page shows each licence once, and every licence that existed before. */
export const pages: Rule = function* (outcome) {
  const issued = sentTo(outcome, 'issue').filter(isAcknowledged)
  for (const { appId, from, ids } of outcome.walks) {
    yield* once(ids, 'is twice in a walk through the list')
    const seen = new Set<unknown>(ids)
    for (const { asked, to, body } of issued)
      if (asked.appId === appId && to < from && !seen.has(body['id']))
        yield `a walk through the list misses ${String(body['id'])}, which existed before it`
  }
}
