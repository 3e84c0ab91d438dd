import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { eventually } from '@licensing/test-support/poll'
import { startHarness } from './testing/harness.ts'
import type { Harness } from './testing/harness.ts'
import {
  activeOn,
  actor,
  archive,
  causeOn,
  countedOn,
  deadlocks,
  events,
  eventTypes,
  givenLicence,
  givenLicenceIn,
  givenPlan,
  history,
  issue,
  raceRounds,
  restore,
  statusOf,
  verbOn,
} from './testing/makers.ts'
import { anew, provision, suspendFor } from './testing/payments.ts'

// Hundreds of calls each, on a machine that may be busy.
vi.setConfig({ testTimeout: 300_000 })

// Every race runs against two replicas of the service on one database, RACE_ROUNDS times.
let harness: Harness
let other: Harness
beforeAll(async () => {
  harness = await startHarness()
  const replica = await harness.replica()
  other = { ...harness, ...replica }
})
afterAll(async () => {
  await other[Symbol.asyncDispose]()
  await harness[Symbol.asyncDispose]()
})

const waitingForLocks = async () => (await harness.sql`select 1 from pg_locks where not granted`).count

const rounds = Array.from({ length: raceRounds }, (_, round) => round)
const either = (place: number): Harness => (place % 2 === 0 ? harness : other)

type Settled = PromiseSettledResult<unknown>
const codes = (outcomes: Settled[]) =>
  outcomes.map((outcome) =>
    outcome.status === 'fulfilled' ? 'ok' : String((outcome.reason as { code?: unknown }).code),
  )
const fulfilled = <T>(outcomes: PromiseSettledResult<T>[]): T[] =>
  outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))

test('of 50 first tries with one idempotency key exactly one mints, and all answer with its licence', async () => {
  const plan = await givenPlan(harness)
  for (const round of rounds) {
    const idempotencyKey = `race-${round}`
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, place) => issue(either(place), { planId: plan.id, idempotencyKey })),
    )
    expect(new Set(answers.map((answer) => answer.licence!.id)).size).toBe(1)
    expect(answers.filter((answer) => !answer.replayed)).toHaveLength(1)
  }
  expect(await activeOn(harness, plan)).toBe(BigInt(rounds.length))
})

test('keys that race in opposite orders neither block each other nor mint twice', async () => {
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
      return { legacyKey: `race-${round}-${at}`, externalRef: 'customer', planId: plan.id }
    })
    const { accountId, applicationId } = harness
    const importInto = (replica: Harness, order: typeof items) =>
      replica.licensing.importLicences({ accountId, applicationId, actor, items: order })
    const answers = await Promise.all([importInto(harness, items), importInto(other, items.toReversed())])
    expect(answers.reduce((sum, answer) => sum + answer.created, 0)).toBe(items.length)
    expect(answers.reduce((sum, answer) => sum + answer.existing, 0)).toBe(items.length)
    const ids = answers.flatMap((answer) => answer.items.map((item) => item.licenceId))
    expect(new Set(ids).size).toBe(items.length)
  }
})

test('an issue, import or payment that races an archive is refused, or its licence is among those suspended', async () => {
  for (const round of rounds) {
    const plan = await givenPlan(harness)
    const { accountId, applicationId } = harness
    const importInto = (replica: Harness, place: number) =>
      replica.licensing.importLicences({
        accountId,
        applicationId,
        actor,
        items: [{ legacyKey: `archived-${round}-${place}`, externalRef: 'c', planId: plan.id }],
      })
    const archiving = archive(either(round), plan)
    const [issued, paid, imports] = await Promise.all([
      Promise.allSettled(Array.from({ length: 8 }, (_, place) => issue(either(place), { planId: plan.id }))),
      Promise.allSettled([provision(other, { planId: plan.id, externalRef: anew('buyer') })]),
      Promise.all([importInto(harness, 0), importInto(other, 1)]),
    ])
    const imported = imports.flatMap((answer) => answer.items)
    const { suspendedLicences } = await archiving

    expect(new Set([...codes(issued), ...codes(paid), 'ok', 'plan_archived'])).toEqual(
      new Set(['ok', 'plan_archived']),
    )
    const minted = [
      ...fulfilled(issued).map((answer) => answer.licence!.id),
      ...fulfilled(paid).map((answer) => answer.licence!.id),
      ...imported.filter((item) => item.result === 'created').map((item) => item.licenceId!),
    ]
    expect(suspendedLicences).toBe(BigInt(minted.length))
    expect(await countedOn(harness, plan)).toBe(0n)
    expect(await activeOn(harness, plan)).toBe(0n)
  }
})

test('a reactivate that races an archive never leaves an active licence on the retired plan', async () => {
  for (const round of rounds) {
    const plan = await givenPlan(harness)
    const licence = await givenLicenceIn(harness, 'suspended', plan.id)
    const outcomes = await Promise.allSettled([
      harness.licensing.reactivateLicence(verbOn(harness, licence)),
      archive(either(round), plan),
    ])
    expect(await statusOf(harness, licence)).toBe('suspended')
    expect(await activeOn(harness, plan)).toBe(0n)
    const reactivated = outcomes[0].status === 'fulfilled'
    expect((outcomes[1] as PromiseFulfilledResult<{ suspendedLicences: bigint }>).value).toMatchObject({
      suspendedLicences: reactivated ? 1n : 0n,
    })
    expect(await eventTypes(harness, licence)).toEqual([
      'licence.suspended',
      ...(reactivated ? ['licence.reactivated', 'licence.suspended'] : []),
    ])
  }
})

test('of two verbs that race one wins, and the other finds what it left', async () => {
  for (const round of rounds) {
    const plan = await givenPlan(harness)
    const licence = await givenLicence(harness, { planId: plan.id })
    const outcomes = await Promise.allSettled([
      either(round).licensing.suspendLicence(verbOn(harness, licence)),
      either(round + 1).licensing.revokeLicence(verbOn(harness, licence)),
    ])
    // Suspended and then revoked, or revoked and no longer to be suspended.
    const [suspended, revoked] = codes(outcomes)
    expect(revoked).toBe('ok')
    expect(['ok', 'conflict']).toContain(suspended)
    expect(await statusOf(harness, licence)).toBe('revoked')
    const both = suspended === 'ok'
    expect(await eventTypes(harness, licence)).toEqual([
      ...(both ? ['licence.suspended'] : []),
      'licence.revoked',
    ])
    expect((await history(harness, licence)).map((entry) => entry.type)).toEqual([
      'issued',
      ...(both ? ['suspended'] : []),
      'revoked',
    ])
    expect(await activeOn(harness, plan)).toBe(0n)
  }
})

test('of many equal verbs at once one changes the licence, and one event tells of it', async () => {
  for (const _ of rounds) {
    const plan = await givenPlan(harness)
    const licence = await givenLicence(harness, { planId: plan.id })
    const outcomes = await Promise.allSettled(
      Array.from({ length: 6 }, (_, place) =>
        either(place).licensing.suspendLicence(verbOn(harness, licence)),
      ),
    )
    expect(codes(outcomes).toSorted()).toEqual([...Array(5).fill('conflict'), 'ok'])
    await Promise.all(
      Array.from({ length: 6 }, (_, place) =>
        either(place).licensing.revokeLicence(verbOn(harness, licence)),
      ),
    )
    expect(await eventTypes(harness, licence)).toEqual(['licence.suspended', 'licence.revoked'])
  }
})

test('an archive asked for several times at once suspends once, and every answer has the same count', async () => {
  for (const _ of rounds) {
    const plan = await givenPlan(harness)
    await Promise.all([1, 2, 3].map(() => issue(harness, { planId: plan.id })))
    const before = (await events(harness)).length
    const copy = { ...plan, version: 2n, status: 'retired', archiveVersion: 2n, archivedBy: actor }
    const answers = await Promise.all([
      harness.licensing.archivePlan({ plan: copy }),
      other.licensing.archivePlan({ plan: copy }),
      other.licensing.syncPlans({ plans: [copy] }),
      harness.licensing.archivePlan({ plan: copy }),
    ])
    const counts = answers.flatMap((answer) =>
      'suspendedLicences' in answer ? [answer.suspendedLicences] : [],
    )
    expect(counts).toEqual([3n, 3n, 3n])
    expect((await events(harness)).slice(before)).toHaveLength(3)
    expect(await activeOn(harness, plan)).toBe(0n)
  }
})

test('payments of one new customer that race mint one licence; the others find it', async () => {
  for (const _ of rounds) {
    const plan = await givenPlan(harness)
    const externalRef = anew('buyer')
    const paymentRef = anew('cs')
    const answers = await Promise.all([
      provision(harness, { planId: plan.id, externalRef }),
      provision(other, { planId: plan.id, externalRef }),
      provision(other, { planId: plan.id, externalRef, paymentRef }),
      provision(harness, { planId: plan.id, externalRef, paymentRef }),
    ])
    const licence = answers[0].licence!
    expect(new Set(answers.map((answer) => answer.licence!.id)).size).toBe(1)
    expect((await eventTypes(harness, licence)).toSorted()).toEqual([
      'licence.created',
      'licence.plan_changed',
      'licence.plan_changed',
    ])
    expect(await activeOn(harness, plan)).toBe(1n)
  }
})

test('a payment that races an archive of the plan left, or a verb, ends in one of the orders', async () => {
  for (const round of rounds) {
    const [plan, next] = [await givenPlan(harness), await givenPlan(harness)]
    const externalRef = anew('buyer')
    const licence = await givenLicence(harness, { planId: plan.id, externalRef })
    const [paid, archived, revoked] = await Promise.allSettled([
      provision(harness, { planId: next.id, externalRef }),
      archive(other, plan),
      either(round).licensing.revokeForRefund(causeOn(harness, licence, 'charge')),
    ])
    expect(codes([paid, archived, revoked])).toEqual(['ok', 'ok', 'ok'])
    expect(await statusOf(harness, licence)).toBe('revoked')
    const counts = await Promise.all([plan, next].map((one) => activeOn(harness, one)))
    expect(counts).toEqual(await Promise.all([plan, next].map((one) => countedOn(harness, one))))
    expect(counts[0]).toBe(0n)
  }
})

test('one consequence of a payment that arrives several times at once is drawn once', async () => {
  for (const _ of rounds) {
    const plan = await givenPlan(harness)
    const licence = await givenLicence(harness, { planId: plan.id })
    const cause = causeOn(harness, licence, 'rfd')
    await Promise.all(
      Array.from({ length: 6 }, (_, place) => either(place).licensing.downgradeForRefund(cause)),
    )
    await Promise.all(Array.from({ length: 6 }, (_, place) => either(place).licensing.revokeForRefund(cause)))
    expect(await eventTypes(harness, licence)).toEqual(['licence.downgraded', 'licence.revoked'])
    expect(await activeOn(harness, plan)).toBe(0n)
  }
})

test('an archive gets through while others keep issuing on the plan', async () => {
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

test('who mints or reactivates on a plan that is just being archived waits for the outcome, and is refused', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicenceIn(harness, 'suspended', plan.id)
  const { accountId, applicationId } = harness
  const items = [{ legacyKey: anew('waits'), externalRef: 'customer', planId: plan.id }]
  const { calls } = await harness.sql.begin(async (tx) => {
    await tx`update plans set status = 'retired' where id = ${plan.id}`
    const calls = [
      issue(harness, { planId: plan.id }),
      provision(harness, { planId: plan.id, externalRef: anew('buyer') }),
      harness.licensing.reactivateLicence(verbOn(harness, licence)),
      harness.licensing
        .importLicences({ accountId, applicationId, actor, items })
        .then(({ items: [item] }) => Promise.reject(item!.error ?? new Error(item!.result))),
    ].map((call) => call.catch((error: { code: string }) => error.code))
    await eventually(async () => expect(await waitingForLocks()).toBe(calls.length))
    return { calls }
  })
  expect(await Promise.all(calls)).toEqual(Array(4).fill('plan_archived'))
})

test('a consequence that waited while a payment took the licence to a retired plan looks at that plan', async () => {
  const [plan, next] = [await givenPlan(harness), await givenPlan(harness)]
  const licence = await givenLicence(harness, { planId: plan.id })
  await suspendFor(harness, licence, 'dispute_inquiry')
  await archive(harness, next)
  const { resuming } = await harness.sql.begin(async (tx) => {
    await tx`update licences set plan_id = ${next.id} where id = ${licence.id}`
    const resuming = harness.licensing.resumeFromInquiry(causeOn(harness, licence, 'dp'))
    await eventually(async () => expect(await waitingForLocks()).toBe(1))
    return { resuming }
  })
  expect(await resuming).toMatchObject({ status: 'suspended', planId: next.id })
  expect(await countedOn(harness, next)).toBe(0n)
})

test('an archive that takes its time holds up nobody who issues on another plan', async () => {
  const [plan, another] = [await givenPlan(harness), await givenPlan(harness)]
  const { waiting } = await harness.sql.begin(async (tx) => {
    await tx`select id from plans where id = ${plan.id} for update`
    const waiting = Promise.allSettled([1, 2, 3].map(() => issue(harness, { planId: plan.id })))
    expect(await Promise.all([1, 2, 3].map(() => issue(harness, { planId: another.id })))).toHaveLength(3)
    await tx`update plans set status = 'retired' where id = ${plan.id}`
    return { waiting }
  })
  expect(codes(await waiting)).toEqual(Array(3).fill('plan_archived'))
})

test('through all of it the lock order has held: no transaction was undone and tried again', async () => {
  expect(await deadlocks(harness)).toBe(0)
})
