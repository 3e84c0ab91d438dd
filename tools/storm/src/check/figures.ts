import { historiesOf, valid } from './histories.ts'
import { groupBy, same, type Rule } from './rule.ts'

const slowestRequestMs = 60_000
// A busy machine takes longer for every start.
const readyWithinMs = (startMs: number) => Math.max(10_000, startMs)

export const counters: Rule = function* ({ counters }) {
  for (const { name, kept, counted } of counters)
    if (kept !== counted) yield `${name}: ${kept} is kept and ${counted} are counted`
}

export const activeLicences: Rule = function* ({ plans, licences }) {
  for (const { id, activeLicences } of plans) {
    const counted = licences.filter(({ planId, status }) => planId === id && status === 'active').length
    if (counted !== activeLicences)
      yield `plan ${id} says ${activeLicences} active licences, there are ${counted}`
  }
}

const firstRestartMs = Date.UTC(2020, 0)

/** An application's revocation list has every licence that was ever revoked, once, and no other. */
export const revocations: Rule = function* (outcome) {
  const histories = historiesOf(outcome)
  const revoked = outcome.licences
    .map(({ id }) => id)
    .filter((id) => histories.get(id)?.some(({ type }) => type === 'revoked'))
  const listed = outcome.revocations.map(({ licenceId }) => licenceId)
  yield* same('the revocation of', revoked, listed)
  for (const [appId, rows] of groupBy(outcome.revocations, (row) => row.appId)) {
    let before = 0
    for (const version of rows.map((row) => row.version).toSorted((one, other) => one - other)) {
      // If PostgreSQL was restarted, versions go on from the milliseconds since 1970.
      if (version !== before + 1 && (version === before || version < firstRestartMs))
        yield `the revocations of ${appId} have version ${version} after ${before}`
      before = version
    }
  }
}

/** Licences past their end are expired by the sweep. */
export const swept: Rule = function* ({ licences, sent }) {
  const last = Math.max(...sent.map(({ to }) => to))
  for (const { id, status, expiresOn } of licences)
    if (expiresOn !== null && expiresOn < last && valid.includes(status))
      yield `${id} is past its end and ${status}`
}

export const leftovers: Rule = function* ({ leftovers }) {
  for (const { name, count } of leftovers) if (count > 0) yield `${name}: ${count}`
}

export const requestTimes: Rule = function* ({ sent }) {
  for (const { asked, from, to } of sent)
    if (to - from > slowestRequestMs) yield `${asked.do} took ${to - from} ms`
}

export const readyTimes: Rule = function* ({ ready, startMs }) {
  for (const { process, afterMs } of ready)
    if (afterMs === null || afterMs > readyWithinMs(startMs)) yield `${process} was ready after ${afterMs} ms`
}

export const crashes: Rule = function* ({ crashes }) {
  for (const { process, at } of crashes) yield `${process} ended by itself at ${new Date(at).toISOString()}`
}
