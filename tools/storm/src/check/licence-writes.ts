import type { Answered, HistoryEntry, Outcome } from '../outcome.ts'
import { groupBy, sentTo, timesProblem, duplicates, type Rule } from './rule.ts'

/** Each idempotency key has exactly one licence, the answered one. */
export const issuedOnce: Rule = (outcome) => {
  const found = groupBy(
    outcome.licences.filter(({ idempotencyKey }) => idempotencyKey !== null),
    ({ appId, idempotencyKey }) => `${appId} ${idempotencyKey}`,
  )
  return [...groupBy(sentTo(outcome, 'issue'), ({ asked }) => `${asked.appId} ${asked.key}`)].flatMap(
    ([key, tries]) => {
      const licences = found.get(key) ?? []
      const { asked } = tries[0]!
      const ids = new Set(
        tries.filter(({ answered }) => answered === 'acknowledged').map(({ body }) => body['id']),
      )
      return [
        ...timesProblem(
          `issue ${key}`,
          tries.map(({ answered }) => answered),
          licences.length,
        ),
        ...(ids.size > 1 ? [`issue ${key} was answered with several licences`] : []),
        ...licences
          .filter(({ id }) => ids.size > 0 && !ids.has(id))
          .map(({ id }) => `issue ${key} made ${id}, which is not the answered licence`),
        ...licences
          .filter((licence) => licence.externalRef !== asked.externalRef || licence.planId !== asked.planId)
          .map(({ id }) => `${id} of issue ${key} does not match the request`),
      ]
    },
  )
}

interface ImportedItem {
  legacy_key: string
  result: string
  licence_id: string | null
}

/** Each legacy key has exactly one licence, the answered one, and only one import created it. */
export const importedOnce: Rule = (outcome) => {
  const tries = sentTo(outcome, 'import').flatMap(({ asked, answered, body }) =>
    asked.items.map((item, place) => {
      const result = (body['items'] as ImportedItem[] | undefined)?.[place]
      const outcomeOfItem: Answered = result?.result === 'failed' ? 'refused' : answered
      return { key: `${asked.appId} ${item.legacyKey}`, answered: outcomeOfItem, result }
    }),
  )
  const found = groupBy(
    outcome.licences.filter(({ legacyKey }) => legacyKey !== null),
    ({ appId, legacyKey }) => `${appId} ${legacyKey}`,
  )
  return [...groupBy(tries, ({ key }) => key)].flatMap(([key, all]) => {
    const licences = found.get(key) ?? []
    const results = all.filter(({ answered }) => answered === 'acknowledged').map(({ result }) => result)
    const ids = new Set(licences.map(({ id }) => id))
    return [
      ...timesProblem(
        `import of ${key}`,
        all.map(({ answered }) => answered),
        licences.length,
      ),
      ...(results.filter((result) => result?.result === 'created').length > 1
        ? [`import of ${key} was answered as created twice`]
        : []),
      ...(results.some((result) => result && !ids.has(result.licence_id ?? ''))
        ? [`import of ${key} was answered with another licence than the existing one`]
        : []),
    ]
  })
}

/** Every licence was requested by an issue, an import, a payment or a trial. */
export const nothingUnasked: Rule = (outcome) => {
  const asked = new Set([
    ...sentTo(outcome, 'issue').map(({ asked: { appId, key } }) => `${appId} ${key}`),
    ...sentTo(outcome, 'import').flatMap(({ asked: { appId, items } }) =>
      items.map(({ legacyKey }) => `${appId} ${legacyKey}`),
    ),
  ])
  const others = new Set([...outcome.provisions, ...outcome.trials].map(({ licenceId }) => licenceId))
  return outcome.licences
    .filter(({ id, appId, idempotencyKey, legacyKey }) => {
      const key = idempotencyKey ?? legacyKey
      return key === null ? !others.has(id) : !asked.has(`${appId} ${key}`)
    })
    .map(({ id }) => `nobody asked for ${id}`)
}

/** Each acknowledged activation exists once, within the licence's limit. */
export const activations: Rule = (outcome) => {
  const there = new Set(outcome.activations.flatMap(({ id, deactivated }) => (deactivated ? [] : [id])))
  const freed = (answers: Answered[]) =>
    new Set(
      sentTo(outcome, 'free')
        .filter(({ answered }) => answers.includes(answered))
        .map(({ asked }) => asked.activationId),
    )
  const maybeFreed = freed(['acknowledged', 'unknown'])
  const certainlyFreed = freed(['acknowledged'])
  const replaced = replacedIn(outcome)
  const tries = groupBy(sentTo(outcome, 'activate'), ({ asked }) => `${asked.licenceId} ${asked.fingerprint}`)
  const lost = [...tries.values()].flatMap((sent) =>
    sent
      .filter(({ answered }) => answered === 'acknowledged')
      .map(({ body }) => String(body['activation_id']))
      .filter((id) => !there.has(id) && !maybeFreed.has(id) && !replaced.has(id))
      .map((id) => `activation ${id} was acknowledged and does not exist`),
  )
  const appOf = new Map(outcome.trials.map(({ licenceId, appId }) => [licenceId, appId]))
  const trials = groupBy(sentTo(outcome, 'try'), ({ asked }) => `${asked.appId} ${asked.fingerprint}`)
  const refused = outcome.activations
    .filter(({ licenceId, fingerprint }) => {
      const sent = [
        ...(tries.get(`${licenceId} ${fingerprint}`) ?? []),
        ...(trials.get(`${appOf.get(licenceId)} ${fingerprint}`) ?? []),
      ]
      return sent.every(({ answered }) => answered === 'refused')
    })
    .map(({ id }) => `activation ${id} exists although it was refused or never requested`)
  const over = outcome.licences.flatMap(({ id, maxActivations }) => {
    const count = outcome.activations.filter(({ licenceId }) => licenceId === id).length
    return maxActivations !== null && count > maxActivations
      ? [`${id} has ${count} activations of ${maxActivations}`]
      : []
  })
  return [
    ...lost,
    ...refused,
    ...over,
    ...[...groupBy([...replaced.values()], ({ licenceId, at }) => `${licenceId} on ${dayOf(at)}`)]
      .filter(([, entries]) => entries.length > maxReplaced)
      .map(([of, entries]) => `${entries.length} activations of ${of} were replaced`),
    ...[...certainlyFreed]
      .filter((id) => there.has(id))
      .map((id) => `activation ${id} was freed and is there`),
    ...duplicates(outcome.activations.map(({ licenceId, fingerprint }) => `${licenceId} ${fingerprint}`)).map(
      (key) => `fingerprint ${key} is activated twice`,
    ),
  ]
}

const maxReplaced = 5
const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10)

/** Activations that another product replaced, by id: they were freed without a request of their own product. */
function replacedIn(outcome: Outcome): Map<string, HistoryEntry> {
  const own = new Set(sentTo(outcome, 'free').map(({ asked }) => asked.activationId))
  const replacing = new Set(
    sentTo(outcome, 'activate').flatMap(({ asked: { licenceId, replaces } }) =>
      replaces ? [licenceId] : [],
    ),
  )
  return new Map(
    outcome.history
      .filter(({ type, actor }) => type === 'activation_freed' && actor === 'product')
      .filter(({ licenceId, cause }) => replacing.has(licenceId) && cause !== null && !own.has(cause))
      .map((entry) => [entry.cause!, entry]),
  )
}

/** Reading a list page by page shows each licence once, and every licence that existed before. */
export const pages: Rule = (outcome: Outcome) => {
  const issued = sentTo(outcome, 'issue').filter(({ answered }) => answered === 'acknowledged')
  return outcome.walks.flatMap(({ appId, from, ids }) => {
    const seen = new Set(ids)
    return [
      ...duplicates(ids).map((id) => `a walk through the list shows ${id} twice`),
      ...issued
        .filter(({ asked, to, body }) => asked.appId === appId && to < from && !seen.has(String(body['id'])))
        .map(({ body }) => `a walk through the list misses ${String(body['id'])}, which existed before it`),
    ]
  })
}
