import { create } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { RestrictionsSchema } from '@licensing/proto/licensing'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { sweepExpiries } from '../../src/sweeps/sweep-expiries.ts'
import { forFile } from '../harness.ts'
import {
  activeOn,
  actor,
  archive,
  countedOn,
  events,
  eventTypes,
  givenLicence,
  givenLicenceIn,
  givenPlan,
  issue,
  newest,
  findUnruledStatuses,
  findWrongStatuses,
  history,
  statusOf,
  update,
  verbOn,
  licenceOf,
  atOnce,
  settledAtOnce,
} from '../makers.ts'
import type { FieldChange } from '../makers.ts'
import { bought, happen, provision, unique } from '../purchases.ts'
import { codes, expectNoDeadlock, rounds, startReplicas, waitingForLocks } from '../races.ts'

const { harness, other, either } = await forFile(startReplicas)

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

test('if one verb is called many times at once, one call changes the licence and sends one event', async () => {
  for (const _ of rounds) {
    const licence = await givenLicence(harness)
    const outcomes = await settledAtOnce(6, (place) =>
      either(place).licensing.suspendLicence(verbOn(harness, licence)),
    )
    expect(codes(outcomes).toSorted()).toEqual([...Array(5).fill('conflict'), 'ok'])
    await atOnce(6, (place) => either(place).licensing.revokeLicence(verbOn(harness, licence)))
    expect(await eventTypes(harness, licence)).toEqual(['licence.suspended', 'licence.revoked'])
  }
})

test('verbs, a payment and an archive of the earlier plan at once have the result of one of the orders', async () => {
  for (const round of rounds) {
    const [plan, next] = [await givenPlan(harness), await givenPlan(harness)]
    const externalRef = unique('buyer')
    const licence = await givenLicence(harness, { planId: plan.id, externalRef })
    const outcomes = await Promise.allSettled([
      either(round).licensing.suspendLicence(verbOn(harness, licence)),
      either(round + 1).licensing.revokeLicence(verbOn(harness, licence)),
      provision(harness, { planId: next.id, externalRef }),
      archive(other, plan),
    ])
    const [suspended, ...others] = codes(outcomes)
    // The licence may have been suspended by the archive or revoked before.
    expect(['ok', 'conflict']).toContain(suspended)
    expect(others).toEqual(['ok', 'ok', 'ok'])
    expect(await statusOf(harness, licence)).toBe('revoked')
    const entries = await history(harness, licence)
    expect(entries.map(({ from }) => from).slice(1)).toEqual(entries.map(({ to }) => to).slice(0, -1))
    const byVendor = entries.filter((entry) => entry.type === 'suspended' && entry.cause === undefined)
    expect(byVendor).toHaveLength(suspended === 'ok' ? 1 : 0)
    expect(await eventTypes(harness, licence)).toEqual(entries.slice(1).map(({ type }) => `licence.${type}`))
    for (const one of [plan, next]) {
      expect(await activeOn(harness, one)).toBe(await countedOn(harness, one))
    }
    expect(await activeOn(harness, plan)).toBe(0n)
  }
})

test('concurrent calls of one archive suspend once, and every answer has the same count', async () => {
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

test('an event of a purchase that arrives several times at once is applied once', async () => {
  for (const _ of rounds) {
    const plan = await givenPlan(harness)
    const licence = await bought(harness, plan.id)
    for (const name of ['a partial refund', 'a full refund'] as const) {
      await atOnce(6, (place) => happen(either(place), licence, name, 'rfd'))
    }
    expect((await eventTypes(harness, licence)).slice(1)).toEqual(['licence.downgraded', 'licence.revoked'])
    expect(await activeOn(harness, plan)).toBe(0n)
  }
})

test('an event that waited while a payment moved the licence to a retired plan respects that plan', async () => {
  const [plan, next] = [await givenPlan(harness), await givenPlan(harness)]
  const licence = await bought(harness, plan.id)
  await happen(harness, licence, 'an inquiry')
  await archive(harness, next)
  const { resuming } = await harness.sql.begin(async (tx) => {
    await tx`update licences set plan_id = ${next.id} where id = ${licence.id}`
    await tx`update purchases set plan_id = ${next.id}, bought_plan_id = ${next.id} where licence_id = ${licence.id}`
    const resuming = happen(harness, licence, 'an inquiry that closes')
    await eventually(async () => expect(await waitingForLocks(harness)).toBe(1))
    return { resuming }
  })
  expect(await resuming).toMatchObject({ status: 'suspended', planId: next.id })
  expect(await countedOn(harness, next)).toBe(0n)
})

test('updates of a due licence that race verbs, an archive, the sweep, a payment and a refund are not lost', async () => {
  for (const round of rounds) {
    const [plan, next] = [await givenPlan(harness), await givenPlan(harness)]
    const externalRef = unique('buyer')
    const expiresOn = new Date(Date.now() - 1_000)
    const { licence } = await provision(harness, { planId: plan.id, externalRef, expiresOn })
    const updated = (place: number, change: FieldChange) => update(either(place), licence, change)
    const restrictions = create(RestrictionsSchema, { maxSeats: 7 })
    const verb = round % 3 === 0 ? 'revokeLicence' : round % 3 === 1 ? 'suspendLicence' : 'retireLicence'
    const outcomes = await Promise.allSettled([
      updated(0, { restrictions }),
      updated(1, { expiresOn: null }),
      updated(0, { expiresOn: timestampFromDate(new Date(Date.now() + 86_400_000)) }),
      updated(1, { externalRef: `${externalRef} moved` }),
      sweepExpiries(either(round).deps),
      archive(either(round + 1), plan),
      either(round).licensing[verb](verbOn(harness, licence)),
      provision(either(round + 1), { planId: next.id, externalRef }),
      happen(either(round), licence, 'a partial refund'),
    ])
    const [terms, , , reference] = codes(outcomes)
    // The only other refusals: the licence was revoked or retired before, or its plan was archived.
    for (const code of codes(outcomes)) expect(['ok', 'conflict', 'plan_archived']).toContain(code)
    const now = await licenceOf(harness, licence)
    expect(now.restrictions?.maxSeats).toBe(terms === 'ok' ? 7 : undefined)
    expect(now.externalRef).toBe(reference === 'ok' ? `${externalRef} moved` : externalRef)
    const scope = { accountId: harness.accountId, licenceId: licence.id }
    const { entries } = await harness.licensing.listLicenceHistory({ ...scope, ...newest })
    const named = entries.flatMap(({ changesJson }) => Object.keys(JSON.parse(changesJson ?? '{}') as object))
    expect(named.filter((field) => field !== 'expires_on').toSorted()).toEqual([
      ...(reference === 'ok' ? ['external_ref'] : []),
      ...(terms === 'ok' ? ['restrictions'] : []),
    ])
    for (const one of [plan, next]) {
      expect(await activeOn(harness, one)).toBe(await countedOn(harness, one))
    }
    expect(await activeOn(harness, plan)).toBe(0n)
    expect(await findWrongStatuses(harness)).toEqual([])
    expect(await findUnruledStatuses(harness)).toEqual([])
  }
})

test('no transaction of these tests was in a deadlock', async () => {
  await expect(expectNoDeadlock(harness)).resolves.toBeUndefined()
})
