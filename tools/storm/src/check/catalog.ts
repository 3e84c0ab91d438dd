import { baseOf } from '../outcome.ts'
import { afterRemoval, asAnswered, groupBy, isPossible, lastSet, removedBy, same, sentTo } from './rule.ts'
import type { Rule } from './rule.ts'

/** Each acknowledged plan code exists once, with the name that was set last. */
export const plansOnce: Rule = function* (outcome) {
  const created = sentTo(outcome, 'create plan').map(({ asked, answered }) => {
    return { answered, name: asked.name, key: `${asked.appId} ${asked.code}` }
  })
  const plans = outcome.plans.map((plan) => ({ ...plan, key: `${plan.appId} ${plan.code}` }))
  yield* asAnswered('plan', created, plans)
  const renamed = groupBy(sentTo(outcome, 'rename plan'), ({ asked }) => asked.planId)
  for (const { id, key, name } of plans) {
    const first = created.filter((each) => each.key === key && isPossible(each))
    const names = lastSet(
      renamed.get(id) ?? [],
      ({ asked }) => asked.name,
      first.map((each) => each.name),
    )
    if (!names.includes(name)) yield `plan ${id} is named ${name}, which is not the last name it was given`
  }
}

/** A plan has the status that its vendor set last. */
export const planStatuses: Rule = function* (outcome) {
  const sent = groupBy(sentTo(outcome, 'archive', 'restore'), ({ asked }) => asked.planId)
  for (const { id, status } of outcome.plans) {
    const meant = ({ asked }: { asked: { do: string } }) => (asked.do === 'archive' ? 'retired' : 'active')
    const allowed = lastSet(sent.get(id) ?? [], meant, ['active'])
    if (!allowed.includes(status)) yield `plan ${id} is ${status} and was last set to ${allowed.join(' or ')}`
  }
}

/** Licensing's copies of plans equal the catalog's plans. */
export const planCopies: Rule = function* ({ catalogPlans, planCopies: copies }) {
  const text = ({ id, status, version }: (typeof copies)[number]) => `${id}, ${status} at version ${version},`
  yield* same('the copy of plan', catalogPlans.map(text), copies.map(text))
}

export const noActiveOnRetired: Rule = function* ({ plans, licences }) {
  const retired = new Set(plans.filter(({ status }) => status === 'retired').map(({ id }) => id))
  for (const { id, planId, status } of licences)
    if (status === 'active' && retired.has(planId))
      yield `${id} is active on plan ${planId}, which is retired`
}

/** Each acknowledged definition exists until it was deleted. */
export const definitions: Rule = function* (outcome) {
  const deleted = removedBy(sentTo(outcome, 'delete definition'), ({ asked }) => asked.definitionId)
  const made = sentTo(outcome, 'define').map(({ asked, answered, body }) => ({
    key: `${asked.appId} ${asked.key}`,
    answered: afterRemoval(answered, String(body['id']), deleted),
  }))
  const rows = outcome.definitions.map(({ appId, key }) => ({ key: `${appId} ${key}` }))
  yield* asAnswered('definition', made, rows)
}

/** The list of keys matches the answers. A revoked key is refused, any other key is accepted. */
export const apiKeys: Rule = function* (outcome) {
  const revokes = removedBy(sentTo(outcome, 'revoke key'), ({ asked }) => asked.keyId)
  const made = sentTo(outcome, 'create key').map(({ asked, answered }) => {
    return { answered, key: `${asked.accountId} ${asked.name}` }
  })
  const requested = new Set(made.map(({ key }) => key))
  const rows = outcome.apiKeys.map(({ accountId, name }) => ({ key: `${accountId} ${name}` }))
  // The key that came with the account was not requested.
  yield* asAnswered(
    'API key',
    made,
    rows.filter(({ key }) => requested.has(key)),
  )
  for (const { id, revoked, accepted } of outcome.apiKeys) {
    if (revoked && !revokes.possible.has(id)) yield `key ${id} is revoked without a request`
    if (!revoked && revokes.certain.has(id)) yield `key ${id} was revoked and is not`
    if (accepted === revoked) yield `key ${id} is ${revoked ? 'revoked and' : 'valid and not'} accepted`
  }
}

export const caps: Rule = function* (outcome) {
  const known = new Map(outcome.capMinor.map(({ accountId, capMinor }) => [accountId, capMinor]))
  for (const [accountId, sent] of groupBy(sentTo(outcome, 'cap'), ({ asked }) => asked.accountId)) {
    const [cap, allowed] = [
      known.get(accountId) ?? null,
      lastSet(sent, ({ asked }) => asked.capMinor, [null]),
    ]
    if (!allowed.includes(cap))
      yield `the cap of ${accountId} is ${cap} and was set to ${allowed.join(' or ')}`
  }
}

/** Endpoints match the answers. They are enabled unless they were deleted; the dead endpoint may have been disabled. */
export const endpoints: Rule = function* (outcome) {
  const keyOf = ({ appId, url }: { appId: string; url: string }) => `${appId} ${baseOf(url)}`
  const made = sentTo(outcome, 'create endpoint').map(({ asked, answered }) => ({
    key: keyOf(asked),
    answered,
  }))
  const rows = outcome.endpoints.map((each) => ({ key: keyOf(each) }))
  yield* asAnswered('endpoint', made, rows)
  const deleted = removedBy(sentTo(outcome, 'delete endpoint'), ({ asked }) => asked.endpointId)
  for (const { id, status, disabledReason, dead } of outcome.endpoints) {
    const isDeleted = deleted.possible.has(id) && disabledReason === 'deleted'
    if (status === 'enabled' ? deleted.certain.has(id) : !dead && !isDeleted)
      yield `endpoint ${id} is ${status} (${disabledReason}), which nobody requested`
  }
}

/** An endpoint has the address and the description that were set last. */
export const endpointChanges: Rule = function* (outcome) {
  const sent = groupBy(sentTo(outcome, 'change endpoint'), ({ asked }) => asked.endpointId)
  const created = new Map(
    sentTo(outcome, 'create endpoint').map(({ asked, body }) => [body['id'], asked.url]),
  )
  for (const { id, url, description } of outcome.endpoints) {
    const edits = (sent.get(id) ?? []).filter(({ asked }) => asked.url !== undefined)
    const allowed = lastSet(edits, ({ asked }) => `${asked.url} ${asked.description}`, [
      `${created.get(id) ?? url} null`,
    ])
    if (!allowed.includes(`${url} ${description}`))
      yield `endpoint ${id} has ${url} and ${description}, and was last set to ${allowed.join(' or ')}`
  }
}
