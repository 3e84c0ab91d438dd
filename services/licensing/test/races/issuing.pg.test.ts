import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { forFile } from '../harness.ts'
import type { Harness } from '../harness.ts'
import {
  activeOn,
  actor,
  archive,
  countedOn,
  eventTypes,
  givenLicenceIn,
  givenPlan,
  issue,
  restore,
  verbOn,
  importItems,
  itemOf,
  atOnce,
  settledAtOnce,
} from '../makers.ts'
import { provision, unique } from '../purchases.ts'
import { codes, expectNoDeadlock, fulfilled, rounds, startReplicas, waitingForLocks } from '../races.ts'

const { harness, other, either } = await forFile(startReplicas)

test('if 50 requests with a new idempotency key race, one makes the licence, and all answer with it', async () => {
  const plan = await givenPlan(harness)
  for (const round of rounds) {
    const idempotencyKey = `race-${round}`
    const answers = await atOnce(50, (place) => issue(either(place), { planId: plan.id, idempotencyKey }))
    expect(new Set(answers.map((answer) => answer.licence!.id)).size).toBe(1)
    expect(answers.filter((answer) => !answer.replayed)).toHaveLength(1)
  }
  expect(await activeOn(harness, plan)).toBe(BigInt(rounds.length))
})

test('keys that race in opposite orders cause no deadlock and no second licence', async () => {
  const plan = await givenPlan(harness)
  for (const round of rounds) {
    const keys = Array.from({ length: 20 }, (_, at) => `order-${round}-${at}`)
    const all = await Promise.all([
      ...keys.map((idempotencyKey) => issue(harness, { planId: plan.id, idempotencyKey })),
      ...keys.toReversed().map((idempotencyKey) => issue(other, { planId: plan.id, idempotencyKey })),
    ])
    expect(new Set(all.map((answer) => answer.licence!.id)).size).toBe(keys.length)
  }
})

test('two imports of the same legacy keys create each once', async () => {
  const plan = await givenPlan(harness)
  for (const round of rounds) {
    const items = Array.from({ length: 20 }, (_, at) => {
      return { legacyKey: `race-${round}-${at}`, planId: plan.id }
    })
    const answers = await Promise.all([importItems(harness, items), importItems(other, items.toReversed())])
    expect(answers.reduce((sum, answer) => sum + answer.created, 0)).toBe(items.length)
    expect(answers.reduce((sum, answer) => sum + answer.existing, 0)).toBe(items.length)
    const ids = answers.flatMap((answer) => answer.items.map((item) => item.licenceId))
    expect(new Set(ids).size).toBe(items.length)
  }
})

test('an issue, import or payment that races an archive is refused, or the archive suspends its licence', async () => {
  for (const round of rounds) {
    const plan = await givenPlan(harness)
    const { accountId, applicationId } = harness
    const importInto = (replica: Harness, place: number) =>
      replica.licensing.importLicences({
        accountId,
        applicationId,
        actor,
        dryRun: false,
        items: [itemOf({ legacyKey: `archived-${round}-${place}`, planId: plan.id })],
      })
    const archiving = archive(either(round), plan)
    const [issued, paid, imports] = await Promise.all([
      settledAtOnce(8, (place) => issue(either(place), { planId: plan.id })),
      Promise.allSettled([provision(other, { planId: plan.id, externalRef: unique('buyer') })]),
      Promise.all([importInto(harness, 0), importInto(other, 1)]),
    ])
    const imported = imports.flatMap((answer) => answer.items)
    const { suspendedLicences } = await archiving

    expect(new Set([...codes(issued), ...codes(paid), 'ok', 'plan_archived'])).toEqual(
      new Set(['ok', 'plan_archived']),
    )
    const licences = [
      ...fulfilled(issued).map((answer) => answer.licence!.id),
      ...fulfilled(paid).map((answer) => answer.licence.id),
      ...imported.filter((item) => item.result === 'created').map((item) => item.licenceId!),
    ]
    expect(suspendedLicences).toBe(BigInt(licences.length))
    expect(await countedOn(harness, plan)).toBe(0n)
    expect(await activeOn(harness, plan)).toBe(0n)
  }
})

test('concurrent payments of a new customer create one licence, and all apply to it', async () => {
  for (const _ of rounds) {
    const plan = await givenPlan(harness)
    const externalRef = unique('buyer')
    const paymentRef = unique('cs')
    const answers = await Promise.all([
      provision(harness, { planId: plan.id, externalRef }),
      provision(other, { planId: plan.id, externalRef }),
      provision(other, { planId: plan.id, externalRef, paymentRef }),
      provision(harness, { planId: plan.id, externalRef, paymentRef }),
    ])
    const licence = answers[0].licence
    expect(new Set(answers.map((answer) => answer.licence.id)).size).toBe(1)
    expect((await eventTypes(harness, licence)).toSorted()).toEqual([
      'licence.created',
      'licence.plan_changed',
      'licence.plan_changed',
    ])
    expect(await activeOn(harness, plan)).toBe(1n)
  }
})

test('an archive succeeds while others keep issuing on the plan', async () => {
  const plan = await givenPlan(harness)
  const archived = new AbortController()
  const issueOn = async (replica: Harness) => {
    while (!archived.signal.aborted) await issue(replica, { planId: plan.id }).catch(() => {})
  }
  const issuers = Array.from({ length: 16 }, (_, place) => issueOn(either(place)))
  await issue(harness, { planId: plan.id })
  await archive(harness, plan)
  archived.abort()
  await Promise.all(issuers)
  expect(await countedOn(harness, plan)).toBe(0n)
  await restore(harness, plan)
})

test('an issue or reactivation on a plan that is being archived waits, and is then refused', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicenceIn(harness, 'suspended', plan.id)
  const { accountId, applicationId } = harness
  const items = [itemOf({ legacyKey: unique('waits'), planId: plan.id })]
  const { calls } = await harness.sql.begin(async (tx) => {
    await tx`update plans set status = 'retired' where id = ${plan.id}`
    const calls = [
      issue(harness, { planId: plan.id }),
      provision(harness, { planId: plan.id, externalRef: unique('buyer') }),
      harness.licensing.reactivateLicence(verbOn(harness, licence)),
      harness.licensing
        .importLicences({ accountId, applicationId, actor, items, dryRun: false })
        .then(({ items: [item] }) => Promise.reject(item!.error ?? new Error(item!.result))),
    ].map((call) => call.catch((error: { code: string }) => error.code))
    // The others wait without a connection, and try again repeatedly.
    await eventually(async () => expect(await waitingForLocks(harness)).toBeGreaterThan(0))
    return { calls }
  })
  expect(await Promise.all(calls)).toEqual(Array(4).fill('plan_archived'))
})

test('no transaction of these tests was in a deadlock', async () => {
  await expect(expectNoDeadlock(harness)).resolves.toBeUndefined()
})
