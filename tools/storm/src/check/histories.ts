import type { LicenceVerb } from '@licensing/proto/closed-sets'
import type { HistoryEntry, Outcome, Sent } from '../outcome.ts'
import { groupBy, sentTo, type AskedTo, type Rule } from './rule.ts'

type VerbSent = Sent & { asked: AskedTo<'verb'> }

const verbs: Record<LicenceVerb, { entry: string; status: string }> = {
  suspend: { entry: 'suspended', status: 'suspended' },
  reactivate: { entry: 'reactivated', status: 'active' },
  revoke: { entry: 'revoked', status: 'revoked' },
  retire: { entry: 'retired', status: 'retired' },
}

const initialEntries = new Set(['issued', 'imported', 'created', 'trial_started'])
const withoutChange = new Set(['migrated', 'activation_freed'])
const valid = ['active', 'suspended', 'downgraded']
const notOver = [...valid, 'expired']
/** The statuses before and after each other type of entry. `keeps`: such an entry may also leave the status as it is. */
const legal: Record<string, { from: string[]; to: string[]; keeps?: true }> = {
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
  if (initialEntries.has(type)) return from === null && to === 'active'
  if (withoutChange.has(type)) return from === to
  const change = legal[type]
  if (!change || from === null) return false
  return (
    (change.keeps && from === to && notOver.includes(to)) ||
    (change.from.includes(from) && change.to.includes(to))
  )
}

/** Entries by licence, oldest first. */
export function historiesOf(outcome: Outcome): Map<string, HistoryEntry[]> {
  const sorted = outcome.history.toSorted((one, other) => one.position - other.position)
  return groupBy(sorted, ({ licenceId }) => licenceId)
}

/** Each entry starts at the status of the entry before it, and the last entry has the licence's status. */
export const oneLegalOrder: Rule = (outcome) => {
  const histories = historiesOf(outcome)
  const known = new Set(outcome.licences.map(({ id }) => id))
  const orphans = [...histories.keys()]
    .filter((id) => !known.has(id))
    .map((id) => `${id} has a history and does not exist`)
  return outcome.licences
    .flatMap(({ id, status }) => {
      const entries = histories.get(id) ?? []
      if (entries.length === 0) return [`${id} has no history`]
      const broken = entries.flatMap((entry, place) => {
        const before = entries[place - 1]?.to ?? null
        if (entry.from !== before)
          return [`${id} went from ${before} and its next entry is from ${entry.from}`]
        if (isLegal(entry)) return []
        return [`${id} was ${entry.type} from ${entry.from} to ${entry.to}, which is not a legal transition`]
      })
      const last = entries.at(-1)!.to
      return last === status ? broken : [...broken, `${id} is ${status}, its history ends with ${last}`]
    })
    .concat(orphans)
}

// The times of entries are rounded to milliseconds.
const roundingMs = 2

function couldBe({ asked, from, to, answered }: VerbSent, entry: HistoryEntry): boolean {
  if (verbs[asked.verb].entry !== entry.type || entry.at < from - roundingMs) return false
  // A request without an answer may still have been executed later, by a frozen process that resumed.
  return answered === 'unknown' || entry.at <= to + roundingMs
}

// A change by an archive has the vendor's key as actor too, but it also has a cause.
const byVerb = ({ type, actor, cause }: HistoryEntry) =>
  actor.startsWith('key_') && cause === null && Object.values(verbs).some(({ entry }) => entry === type)

/** The history of a licence has each acknowledged verb once, and no verb that was not requested. */
export const verbsOnce: Rule = (outcome) => {
  const histories = historiesOf(outcome)
  const sent = groupBy(sentTo(outcome, 'verb'), ({ asked }) => asked.licenceId)
  const ids = new Set([...sent.keys(), ...histories.keys()])
  return [...ids].flatMap((id) => {
    const history = histories.get(id) ?? []
    const entries = history.filter(byVerb)
    const possible = (sent.get(id) ?? []).filter(({ answered }) => answered !== 'refused')
    const certain = possible.filter(
      (each) => each.answered === 'acknowledged' && !changedNothing(each, history),
    )
    return [
      ...unmatched(certain, entries, couldBe).map(
        (each) => `${each.asked.verb} of ${id} was acknowledged at ${each.to} and is not in its history`,
      ),
      ...unmatched(entries, possible, (entry, each) => couldBe(each, entry)).map(
        (entry) => `${id} was ${entry.type} at ${entry.at} by ${entry.actor}, without a request at that time`,
      ),
    ]
  })
}

/** Licences are suspended only by requested archives, and each archive suspended as many as it answered. */
export const archivesCount: Rule = (outcome) => {
  const archives = sentTo(outcome, 'archive').filter(({ asked }) => asked.do === 'archive')
  const suspended = outcome.history.filter(
    ({ type, actor, cause }) => type === 'suspended' && actor.startsWith('key_') && cause !== null,
  )
  const unasked = suspended.filter(
    ({ cause, at }) =>
      !archives.some(
        ({ asked, answered, from }) =>
          cause?.includes(asked.planId) && answered !== 'refused' && at >= from - roundingMs,
      ),
  )
  const byCause = groupBy(suspended, ({ cause }) => cause!)
  const counted = archives
    .filter(({ answered, body }) => answered === 'acknowledged' && Number(body['suspended_licences']) > 0)
    .flatMap(({ asked, to, body }) => {
      const before = suspended.filter(
        ({ cause, at }) => cause!.includes(asked.planId) && at <= to + roundingMs,
      )
      const found = byCause.get(before.at(-1)?.cause ?? '')?.length ?? 0
      const said = Number(body['suspended_licences'])
      return found === said
        ? []
        : [`archiving ${asked.planId} suspended ${found} licences and answered ${said}`]
    })
  return [
    ...unasked.map(
      ({ licenceId, cause }) => `${licenceId} was suspended by ${cause}, which was not requested`,
    ),
    ...counted,
  ]
}

/** Revoking a revoked licence or retiring a retired one answers 200 and adds no entry to the history. */
function changedNothing({ asked: { verb }, to }: VerbSent, entries: HistoryEntry[]): boolean {
  if (verb !== 'revoke' && verb !== 'retire') return false
  return entries.some(({ type, at }) => type === verbs[verb].entry && at <= to + roundingMs)
}

/** The history has verbs in the order in which they were answered. */
export const orderOfAnswers: Rule = (outcome) => {
  const histories = historiesOf(outcome)
  return [...groupBy(sentTo(outcome, 'verb'), ({ asked }) => asked.licenceId)].flatMap(([id, sent]) => {
    const entries = (histories.get(id) ?? []).filter(byVerb)
    const placed = sent
      .filter(({ answered }) => answered === 'acknowledged')
      .flatMap((each) => {
        const own = entries.filter((entry) => couldBe(each, entry))
        return own.length === 1 ? [{ each, place: own[0]!.position }] : []
      })
    return placed.flatMap((one) =>
      placed
        .filter((other) => one.each.to < other.each.from && one.place > other.place)
        .map(
          (other) =>
            `${id}: ${one.each.asked.verb} was answered before ${other.each.asked.verb} and is after it in the history`,
        ),
    )
  })
}

/** An answer has the status that the verb leads to. */
export const answersMatch: Rule = (outcome) =>
  sentTo(outcome, 'verb')
    .filter(({ answered }) => answered === 'acknowledged')
    .filter(({ asked, body }) => body['status'] !== verbs[asked.verb].status)
    .map(
      ({ asked, body }) => `${asked.verb} of ${asked.licenceId} was answered with ${String(body['status'])}`,
    )

/** A refusal names a status that the licence had. */
export const refusalsMatch: Rule = (outcome) => {
  const histories = historiesOf(outcome)
  return sentTo(outcome, 'verb')
    .filter(({ status, body }) => status === 409 && typeof body['current'] === 'string')
    .filter(({ asked, to, body }) => {
      const entries = histories.get(asked.licenceId) ?? []
      return !entries.some((entry) => entry.to === body['current'] && entry.at <= to + roundingMs)
    })
    .map(
      ({ asked, body }) =>
        `${asked.verb} of ${asked.licenceId} was refused as ${String(body['current'])}, a status that it never had`,
    )
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
