import type { Answered, Sent } from '../outcome.ts'
import { groupBy, sentTo, timesProblem, duplicates, type Rule } from './rule.ts'

const isAcknowledged = ({ answered }: Sent) => answered === 'acknowledged'

/** The possible values of a field that only one client sets: the last acknowledged value, and every value without an answer. */
function mayBe<Each extends Sent, Value>(sent: Each[], valueOf: (each: Each) => Value): Value[] {
  const last = sent.findLast(isAcknowledged)
  const open = sent.filter(({ answered }) => answered === 'unknown')
  return [...(last ? [last] : []), ...open].map(valueOf)
}

/** Each acknowledged plan code exists once, with the name that was set last. */
export const plansOnce: Rule = (outcome) => {
  const created = sentTo(outcome, 'create plan')
  const byCode = groupBy(outcome.plans, ({ appId, code }) => `${appId} ${code}`)
  const renamed = groupBy(sentTo(outcome, 'rename plan'), ({ asked }) => asked.planId)
  const counted = [...groupBy(created, ({ asked }) => `${asked.appId} ${asked.code}`)].flatMap(
    ([code, tries]) =>
      timesProblem(
        `plan ${code}`,
        tries.map(({ answered }) => answered),
        byCode.get(code)?.length ?? 0,
      ),
  )
  const names = outcome.plans.flatMap(({ id, appId, code, name }) => {
    const first = created.filter(
      ({ asked, answered }) => asked.appId === appId && asked.code === code && answered !== 'refused',
    )
    const later = renamed.get(id) ?? []
    const given = mayBe(later, ({ asked }) => asked.name)
    const possible = later.some(isAcknowledged) ? given : [...given, ...first.map(({ asked }) => asked.name)]
    return possible.includes(name)
      ? []
      : [`plan ${id} is named ${name}, which is not the last name it was given`]
  })
  return [...counted, ...names]
}

/** A plan has the status that its vendor set last. */
export const planStatuses: Rule = (outcome) => {
  const sent = groupBy(sentTo(outcome, 'archive', 'restore'), ({ asked }) => asked.planId)
  return outcome.plans.flatMap(({ id, status }) => {
    const own = sent.get(id) ?? []
    const possible = mayBe(own, ({ asked }) => (asked.do === 'archive' ? 'retired' : 'active'))
    const allowed = own.some(isAcknowledged) ? possible : [...possible, 'active']
    return allowed.includes(status)
      ? []
      : [`plan ${id} is ${status} and was last set to ${allowed.join(' or ')}`]
  })
}

/** Licensing's copies of plans equal the catalog's plans. */
export const planCopies: Rule = ({ planCopies }) =>
  planCopies
    .filter(
      ({ catalog, licensing }) =>
        catalog.status !== licensing?.status || catalog.version !== licensing.version,
    )
    .map(({ planId, catalog, licensing }) => {
      const copy = licensing ? `${licensing.status} at ${licensing.version}` : 'absent'
      return `plan ${planId} is ${catalog.status} at version ${catalog.version} and its copy is ${copy}`
    })

export const noActiveOnRetired: Rule = ({ plans, licences }) => {
  const retired = new Set(plans.filter(({ status }) => status === 'retired').map(({ id }) => id))
  return licences
    .filter(({ planId, status }) => status === 'active' && retired.has(planId))
    .map(({ id, planId }) => `${id} is active on plan ${planId}, which is retired`)
}

function gone(
  sent: (Sent & { asked: object })[],
  idOf: (each: Sent) => string,
  answers: Answered[],
): Set<string> {
  return new Set(sent.filter(({ answered }) => answers.includes(answered)).map(idOf))
}

export const definitions: Rule = (outcome) => {
  const deletes = sentTo(outcome, 'delete definition')
  const idOf = ({ asked }: Sent) => (asked.do === 'delete definition' ? asked.definitionId : '')
  const certainly = gone(deletes, idOf, ['acknowledged'])
  const maybe = gone(deletes, idOf, ['acknowledged', 'unknown'])
  const there = new Set(outcome.definitions.map(({ id }) => id))
  const made = sentTo(outcome, 'define')
  const lost = made
    .filter(isAcknowledged)
    .map(({ body }) => String(body['id']))
    .filter((id) => !there.has(id) && !maybe.has(id))
  const asked = groupBy(made, ({ asked }) => `${asked.appId} ${asked.key}`)
  const unasked = outcome.definitions.filter(({ appId, key }) =>
    (asked.get(`${appId} ${key}`) ?? []).every(({ answered }) => answered === 'refused'),
  )
  return [
    ...lost.map((id) => `definition ${id} was acknowledged and does not exist`),
    ...[...certainly]
      .filter((id) => there.has(id))
      .map((id) => `definition ${id} was deleted and still exists`),
    ...unasked.map(({ id }) => `definition ${id} exists although it was refused or never requested`),
    ...duplicates(outcome.definitions.map(({ appId, key }) => `${appId} ${key}`)).map(
      (key) => `key ${key} is defined twice`,
    ),
  ]
}

/** The list of keys matches the answers. A revoked key is refused, any other key is accepted. */
export const apiKeys: Rule = (outcome) => {
  const revokes = sentTo(outcome, 'revoke key')
  const idOf = ({ asked }: Sent) => (asked.do === 'revoke key' ? asked.keyId : '')
  const certainly = gone(revokes, idOf, ['acknowledged'])
  const maybe = gone(revokes, idOf, ['acknowledged', 'unknown'])
  const listed = new Map(outcome.apiKeys.map((key) => [key.id, key]))
  const made = groupBy(sentTo(outcome, 'create key'), ({ asked }) => `${asked.accountId} ${asked.name}`)
  const counted = [...made].flatMap(([name, tries]) =>
    timesProblem(
      `key ${name}`,
      tries.map(({ answered }) => answered),
      outcome.apiKeys.filter((key) => `${key.accountId} ${key.name}` === name).length,
    ),
  )
  const states = [...listed.values()].flatMap(({ id, revoked, accepted }) => {
    if (certainly.has(id) && !revoked) return [`key ${id} was revoked and is not`]
    if (!maybe.has(id) && revoked) return [`key ${id} is revoked without a request`]
    if (revoked && accepted === true) return [`key ${id} is revoked and still accepted`]
    if (!revoked && accepted === false) return [`key ${id} is valid and not accepted`]
    return []
  })
  return [...counted, ...states]
}

export const caps: Rule = (outcome) =>
  [...groupBy(sentTo(outcome, 'cap'), ({ asked }) => asked.accountId)].flatMap(([accountId, sent]) => {
    const possible = mayBe(sent, ({ asked }) => asked.capMinor)
    const cap = outcome.capMinor.find((each) => each.accountId === accountId)?.capMinor ?? null
    const allowed = sent.some(isAcknowledged) ? possible : [...possible, null]
    return allowed.includes(cap)
      ? []
      : [`the cap of ${accountId} is ${cap} and was last set to ${allowed.join(' or ')}`]
  })

/** Endpoints match the answers. They are enabled unless they were deleted; the dead endpoint may have been disabled. */
export const endpoints: Rule = (outcome) => {
  const deletes = sentTo(outcome, 'delete endpoint')
  const idOf = ({ asked }: Sent) => (asked.do === 'delete endpoint' ? asked.endpointId : '')
  const certainly = gone(deletes, idOf, ['acknowledged'])
  const maybe = gone(deletes, idOf, ['acknowledged', 'unknown'])
  const counted = [
    ...groupBy(sentTo(outcome, 'create endpoint'), ({ asked }) => `${asked.appId} ${asked.url}`),
  ].flatMap(([url, tries]) =>
    timesProblem(
      `endpoint ${url}`,
      tries.map(({ answered }) => answered),
      outcome.endpoints.filter((each) => `${each.appId} ${each.url}` === url).length,
    ),
  )
  const states = outcome.endpoints.flatMap(({ id, status, disabledReason, dead }) => {
    if (certainly.has(id) && status !== 'disabled') return [`endpoint ${id} was deleted and is ${status}`]
    if (status === 'enabled' || dead) return []
    if (maybe.has(id) && disabledReason === 'deleted') return []
    return [
      `endpoint ${id} is disabled (${disabledReason}) though it was not deleted and its receiver answered`,
    ]
  })
  return [...counted, ...states]
}
