import type { HistoryType, LicenceStatus, LicenceVerb } from '@licensing/proto/closed-sets'
import type { HistoryEntry, Outcome, Sent } from '../outcome.ts'
import { groupBy, isAcknowledged, isPossible, sentTo, type Rule } from './rule.ts'

const verbs: Record<LicenceVerb, { entry: HistoryType; status: LicenceStatus }> = {
  suspend: { entry: 'suspended', status: 'suspended' },
  reactivate: { entry: 'reactivated', status: 'active' },
  revoke: { entry: 'revoked', status: 'revoked' },
  retire: { entry: 'retired', status: 'retired' },
}

/** Whether a licence with this status can expire (`valid`), can get another status again (`expired`), or is `over`. */
const futures: Record<LicenceStatus, 'valid' | 'expired' | 'over'> = {
  active: 'valid',
  suspended: 'valid',
  downgraded: 'valid',
  expired: 'expired',
  revoked: 'over',
  retired: 'over',
}
const statusesOf = (...kinds: string[]) =>
  (Object.keys(futures) as LicenceStatus[]).filter((status) => kinds.includes(futures[status]))

/** The statuses of licences that a sweep expires after their end. */
export const valid = statusesOf('valid')
const notOver = statusesOf('valid', 'expired')

type Change = { from: LicenceStatus[]; to: LicenceStatus[]; keeps?: true }
/**
 * The statuses before and after each type of entry. `first`: the licence's first entry. `keeps`: such an entry may also leave the
 * status as it is.
 */
const legal: Record<HistoryType, Change | 'first' | 'unchanged'> = {
  issued: 'first',
  imported: 'first',
  created: 'first',
  trial_started: 'first',
  migrated: 'unchanged',
  activation_freed: 'unchanged',
  key_rotated: 'unchanged',
  suspended: { from: notOver, to: ['suspended'] },
  reactivated: { from: ['suspended', 'downgraded', 'expired'], to: ['active'] },
  revoked: { from: notOver, to: ['revoked'] },
  retired: { from: [...notOver, 'revoked'], to: ['retired'] },
  expired: { from: valid, to: ['expired'] },
  downgraded: { from: ['active', 'suspended', 'expired'], to: ['downgraded'] },
  plan_changed: { from: notOver, to: ['active'], keeps: true },
  renewed: { from: ['expired'], to: ['suspended', 'downgraded'], keeps: true },
  changed: { from: ['expired'], to: ['suspended', 'downgraded'], keeps: true },
}

function isLegal({ type, from, to }: HistoryEntry): boolean {
  const change = legal[type]
  if (change === 'first') return from === null && to === 'active'
  if (change === 'unchanged') return from === to
  if (from === null) return false
  return (
    (change.keeps && from === to && notOver.includes(to)) ||
    (change.from.includes(from) && change.to.includes(to))
  )
}

/** Entries by licence, oldest first. */
export function historiesOf({ history }: Outcome): Map<string, HistoryEntry[]> {
  return groupBy(
    history.toSorted((one, other) => one.position - other.position),
    ({ licenceId }) => licenceId,
  )
}

/** Each entry starts at the status of the entry before it, and the last entry has the licence's status. */
export const oneLegalOrder: Rule = function* (outcome) {
  const histories = historiesOf(outcome)
  const known = new Set(outcome.licences.map(({ id }) => id))
  for (const id of histories.keys()) if (!known.has(id)) yield `${id} has a history and does not exist`
  for (const { id, status } of outcome.licences) {
    let before: string | null = null
    for (const entry of histories.get(id) ?? []) {
      const { type, from, to } = entry
      if (from !== before || !isLegal(entry))
        yield `${id} was ${before} and then ${type} from ${from} to ${to}`
      before = to
    }
    if (before !== status) yield `${id} is ${status}, its history ends with ${before}`
  }
}

// The times of entries are rounded to milliseconds.
const roundingMs = 2

function couldBe({ asked, from, to, answered }: Sent<'verb'>, entry: HistoryEntry): boolean {
  if (verbs[asked.verb].entry !== entry.type || entry.at < from - roundingMs) return false
  // A request without an answer may still have been executed later, by a frozen process that resumed.
  return answered === 'unknown' || entry.at <= to + roundingMs
}

// A change by an archive has the vendor's key as actor too, but it also has a cause.
const byVerb = ({ type, actor, cause }: HistoryEntry) =>
  actor.startsWith('key_') && cause === null && Object.values(verbs).some(({ entry }) => entry === type)

/** The history of a licence has each acknowledged verb once, and no verb that was not requested. */
export const verbsOnce: Rule = function* (outcome) {
  const histories = historiesOf(outcome)
  const sent = groupBy(sentTo(outcome, 'verb'), ({ asked }) => asked.licenceId)
  for (const id of new Set([...sent.keys(), ...histories.keys()])) {
    const history = histories.get(id) ?? []
    const entries = history.filter(byVerb)
    const possible = (sent.get(id) ?? []).filter(isPossible)
    const certain = possible.filter((each) => isAcknowledged(each) && !changedNothing(each, history))
    for (const { asked, to } of unmatched(certain, entries, couldBe))
      yield `${asked.verb} of ${id} was acknowledged at ${to} and is not in its history`
    for (const { type, at, actor } of unmatched(entries, possible, (entry, each) => couldBe(each, entry)))
      yield `${id} was ${type} at ${at} by ${actor}, without a request at that time`
  }
}

/** Revoking a revoked licence or retiring a retired one answers 200 and adds no entry to the history. */
function changedNothing({ asked: { verb }, to }: Sent<'verb'>, entries: HistoryEntry[]): boolean {
  if (verb !== 'revoke' && verb !== 'retire') return false
  return entries.some(({ type, at }) => type === verbs[verb].entry && at <= to + roundingMs)
}

/** Licences are suspended only by requested archives, and each archive suspended as many as it answered. */
export const archivesCount: Rule = function* (outcome) {
  const archives = sentTo(outcome, 'archive')
  const suspended = outcome.history.flatMap(({ type, actor, cause, licenceId, at }) =>
    type === 'suspended' && actor.startsWith('key_') && cause !== null ? [{ licenceId, cause, at }] : [],
  )
  for (const { licenceId, cause, at } of suspended) {
    const asked = archives.filter((each) => cause.includes(each.asked.planId) && at >= each.from - roundingMs)
    if (!asked.some(isPossible)) yield `${licenceId} was suspended by ${cause}, which was not requested`
  }
  const byCause = groupBy(suspended, ({ cause }) => cause)
  for (const { asked, to, body } of archives.filter(isAcknowledged)) {
    // The latest archive of the plan that could have given this answer.
    const before = suspended.filter(({ cause, at }) => cause.includes(asked.planId) && at <= to + roundingMs)
    const found = byCause.get(before.at(-1)?.cause ?? '')?.length ?? 0
    const said = Number(body['suspended_licences'])
    if (said > 0 && found !== said)
      yield `archiving ${asked.planId} suspended ${found} licences and answered ${said}`
  }
}

/** The history has verbs in the order in which they were answered. */
export const orderOfAnswers: Rule = function* (outcome) {
  const histories = historiesOf(outcome)
  const answered = sentTo(outcome, 'verb').filter(isAcknowledged)
  for (const [id, sent] of groupBy(answered, ({ asked }) => asked.licenceId)) {
    const entries = (histories.get(id) ?? []).filter(byVerb)
    const placed = sent.flatMap((each) => {
      const [own, another] = entries.filter((entry) => couldBe(each, entry))
      return own && !another ? [{ ...each, verb: each.asked.verb, place: own.position }] : []
    })
    for (const one of placed)
      for (const other of placed)
        if (one.to < other.from && one.place > other.place)
          yield `${id}: ${one.verb} was answered before ${other.verb} and is after it in the history`
  }
}

/** An answer has the status that the verb leads to. */
export const answersMatch: Rule = function* (outcome) {
  for (const { asked, body } of sentTo(outcome, 'verb').filter(isAcknowledged))
    if (body['status'] !== verbs[asked.verb].status)
      yield `${asked.verb} of ${asked.licenceId} was answered with ${String(body['status'])}`
}

/** A refusal names a status that the licence had. */
export const refusalsMatch: Rule = function* (outcome) {
  const histories = historiesOf(outcome)
  for (const { asked, status, to: until, body } of sentTo(outcome, 'verb')) {
    const { current } = body
    if (status !== 409 || typeof current !== 'string') continue
    const entries = histories.get(asked.licenceId) ?? []
    if (!entries.some(({ to, at }) => to === current && at <= until + roundingMs))
      yield `${asked.verb} of ${asked.licenceId} was refused as ${current}, a status that it never had`
  }
}

/**
 * Assigns to each of `lefts` a different one of `rights` that fits, as far as possible (bipartite matching).
 *
 * @returns the `lefts` that cannot be assigned
 */
function unmatched<Left, Right>(
  lefts: readonly Left[],
  rights: readonly Right[],
  fits: (left: Left, right: Right) => boolean,
): Left[] {
  const holder = new Map<Right, Left>()
  const place = (left: Left, tried: Set<Right>): boolean => {
    for (const right of rights) {
      if (tried.has(right) || !fits(left, right)) continue
      tried.add(right)
      const other = holder.get(right)
      if (other === undefined || place(other, tried)) {
        holder.set(right, left)
        return true
      }
    }
    return false
  }
  return lefts.filter((left) => !place(left, new Set()))
}
