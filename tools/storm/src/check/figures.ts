import { historiesOf } from './histories.ts'
import { groupBy, duplicates, type Rule } from './rule.ts'

const slowestRequestMs = 60_000
// A busy machine takes longer for every start.
const readyWithinMs = (startMs: number) => Math.max(10_000, startMs)

export const counters: Rule = ({ counters }) =>
  counters
    .filter(({ kept, counted }) => kept !== counted)
    .map(({ name, kept, counted }) => `${name}: ${kept} is kept and ${counted} are counted`)

export const activeLicences: Rule = ({ plans, licences }) =>
  plans.flatMap(({ id, activeLicences }) => {
    const counted = licences.filter(({ planId, status }) => planId === id && status === 'active').length
    return counted === activeLicences
      ? []
      : [`plan ${id} says ${activeLicences} active licences, there are ${counted}`]
  })

const firstRestartMs = Date.UTC(2020, 0)

/** An application's revocation list has every licence that was ever revoked, once, and no other. */
export const revocations: Rule = (outcome) => {
  const histories = historiesOf(outcome)
  const revoked = outcome.licences.filter(({ id }) =>
    (histories.get(id) ?? []).some(({ type }) => type === 'revoked'),
  )
  const listed = new Set(outcome.revocations.map(({ licenceId }) => licenceId))
  const expected = new Set(revoked.map(({ id }) => id))
  const gaps = [...groupBy(outcome.revocations, ({ appId }) => appId)].flatMap(([appId, rows]) => {
    const versions = rows.map(({ version }) => version).toSorted((one, other) => one - other)
    const wrong = versions.findIndex((version, place) => {
      const previous = versions[place - 1] ?? 0
      // If PostgreSQL was restarted, versions go on from the milliseconds since 1970.
      return version !== previous + 1 && (version === previous || version < firstRestartMs)
    })
    return wrong === -1
      ? []
      : [`the revocations of ${appId} have version ${versions[wrong]} in place ${wrong + 1}`]
  })
  return [
    ...gaps,
    ...[...expected].filter((id) => !listed.has(id)).map((id) => `${id} was revoked and is not in the list`),
    ...[...listed]
      .filter((id) => !expected.has(id))
      .map((id) => `${id} is in the list and was never revoked`),
    ...duplicates(outcome.revocations.map(({ licenceId }) => licenceId)).map(
      (id) => `${id} is in the list twice`,
    ),
  ]
}

/** Licences past their end are expired by the sweep. */
export const swept: Rule = ({ licences, sent }) => {
  const last = Math.max(...sent.map(({ to }) => to))
  const due = ['active', 'suspended', 'downgraded']
  return licences
    .filter(({ status, expiresOn }) => expiresOn !== null && expiresOn < last && due.includes(status))
    .map(({ id, status }) => `${id} is past its end and ${status}`)
}

export const leftovers: Rule = ({ leftovers, lags }) => [
  ...leftovers.filter(({ count }) => count > 0).map(({ name, count }) => `${name}: ${count}`),
  ...lags.filter(({ behind }) => behind > 0).map(({ consumer, behind }) => `${consumer} is ${behind} behind`),
]

export const requestTimes: Rule = ({ sent }) =>
  sent
    .filter(({ from, to }) => to - from > slowestRequestMs)
    .map(({ asked, from, to }) => `${asked.do} took ${to - from} ms`)

export const readyTimes: Rule = ({ ready, startMs }) =>
  ready
    .filter(({ afterMs }) => afterMs === null || afterMs > readyWithinMs(startMs))
    .map(
      ({ process, afterMs }) => `${process} was ready ${afterMs === null ? 'never' : `after ${afterMs} ms`}`,
    )

export const crashes: Rule = ({ crashes }) =>
  crashes.map(({ process, at }) => `${process} ended by itself at ${new Date(at).toISOString()}`)
