import type { PlanCopy } from '@licensing/proto/catalog'
import { expect, test } from 'vitest'
import { sweepOverrides } from '../../src/sweeps/sweep-overrides.ts'
import { forFile, planCopy } from '../harness.ts'
import type { Harness } from '../harness.ts'
import {
  actor,
  eventTypes,
  givenLicence,
  givenPlan,
  history,
  findWrongSnapshots,
  verbOn,
  detailOf,
  licenceOf,
  settledAtOnce,
  changesOf,
} from '../makers.ts'
import { deleteOverride, effectiveOf, letEndsPass, setOverride } from '../overrides.ts'
import { activate } from '../products.ts'
import { inDays } from '../purchases.ts'
import { codes, expectNoDeadlock, rounds, startReplicas, untilAvailable } from '../races.ts'

const { harness, either } = await forFile(startReplicas)

const seats = (value: string) => [{ key: 'seats', kind: 'limit', value, default: '1' }]

interface OverrideEntry {
  actor: string
  changes: { 'overrides.seats'?: { from: { value: string } | null; to: { value: string } | null } }
}

/** The values of the override in the history: each entry continues from the one before. */
async function overridesInHistory(licence: { id: string }): Promise<(string | undefined)[]> {
  const entries = (await changesOf(harness, licence)) as OverrideEntry[]
  const steps = entries.flatMap(({ changes }) => changes['overrides.seats'] ?? [])
  steps.slice(1).forEach(({ from }, at) => expect(from).toEqual(steps[at]!.to))
  return steps.map(({ to }) => to?.value)
}

test('of an override that is set and deleted many times at once, nothing is recorded that did not happen', async () => {
  for (const round of rounds) {
    const licence = await givenLicence(harness, {
      planId: (await givenPlan(harness, { entitlements: seats('5') })).id,
    })
    const outcomes = await settledAtOnce(8, (at): Promise<unknown> => {
      const on = either(round + at)
      return at % 2 === 0
        ? untilAvailable(() => setOverride(on, licence, 'seats', { value: '10' }))
        : untilAvailable(() => deleteOverride(on, licence, 'seats'))
    })
    expect(codes(outcomes).filter((code) => code !== 'ok' && code !== 'not_found')).toEqual([])
    const values = await overridesInHistory(licence)
    expect(values).toEqual(values.map((_, at) => (at % 2 === 0 ? '10' : undefined)))
    expect(await eventTypes(harness, licence)).toHaveLength(values.length)
    expect(await effectiveOf(harness, licence)).toEqual({
      seats: values.at(-1) === '10' ? '10 override' : '5 snapshot',
    })
  }
})

test('an end that passes while a call changes the override is in the history once, before the change', async () => {
  for (const round of rounds) {
    const licence = await givenLicence(harness, {
      planId: (await givenPlan(harness, { entitlements: seats('5') })).id,
    })
    await setOverride(harness, licence, 'seats', { value: '10', endsOn: inDays(1) })
    await letEndsPass(harness, licence)
    await Promise.all([
      sweepOverrides(either(round).deps),
      untilAvailable(() => setOverride(either(round), licence, 'seats', { value: '20' })),
      sweepOverrides(either(round + 1).deps),
    ])
    const entries = (await changesOf(harness, licence)) as OverrideEntry[]
    expect(entries.map((entry) => [entry.actor, entry.changes['overrides.seats']!.to?.value])).toEqual([
      [actor, '10'],
      ['sweep', undefined],
      [actor, '20'],
    ])
    expect(await eventTypes(harness, licence)).toHaveLength(3)
    expect(await effectiveOf(harness, licence)).toEqual({ seats: '20 override' })
  }
})

async function changePlan(on: Harness, plan: PlanCopy, version: bigint) {
  const copy = planCopy(harness, { id: plan.id, version, entitlements: seats(`${version}`) })
  await on.licensing.syncPlans({ plans: [copy] })
}

test('while the plan changes, a licence takes the values of one of its versions, and those of the last at the end; of concurrent overrides each is in the history, and the last counts', async () => {
  for (const round of rounds) {
    const plan = await givenPlan(harness, { entitlements: seats('1') })
    const licence = await givenLicence(harness, { planId: plan.id })
    const versions = [2n, 3n, 4n, 5n]
    const take = (at: number) =>
      untilAvailable(() => either(at).licensing.takePlanValues(verbOn(harness, licence)))
    const outcomes = await Promise.allSettled(
      versions.flatMap((version, at): Promise<unknown>[] => [
        untilAvailable(() => changePlan(either(round + at), plan, version)),
        take(round + at),
        untilAvailable(() => setOverride(either(at), licence, 'seats', { value: `${version}` })),
      ]),
    )
    expect(codes(outcomes)).toEqual(outcomes.map(() => 'ok'))
    await take(round)
    const { entitlements, planDrift } = await detailOf(harness, licence)
    expect([entitlements[0]!.value, planDrift]).toEqual(['5', []])
    const overrides = await overridesInHistory(licence)
    expect(new Set(overrides)).toEqual(new Set(versions.map(String)))
    expect(overrides).toHaveLength(versions.length)
    expect(await effectiveOf(harness, licence)).toEqual({ seats: `${overrides.at(-1)} override` })
    const taken = (await changesOf(harness, licence)) as { changes: { entitlements?: { to: unknown } } }[]
    const versionsTaken = taken.flatMap(({ changes }) => changes.entitlements ?? [])
    expect(versionsTaken.length).toBeGreaterThan(0)
    expect(versionsTaken.length).toBeLessThanOrEqual(versions.length)
  }
  expect((await findWrongSnapshots(harness)).missing).toEqual([])
})

test('of two keys rotated at once, both are in the history, and only the last activates', async () => {
  for (const round of rounds) {
    const licence = await givenLicence(harness, { planId: (await givenPlan(harness)).id })
    const rotate = (at: number) =>
      untilAvailable(() => either(at).licensing.rotateLicenceKey(verbOn(harness, licence)))
    const [rotated, activated] = await Promise.all([
      Promise.all([rotate(round), rotate(round + 1)]),
      Promise.allSettled([untilAvailable(() => activate(either(round).products, licence))]),
    ])
    expect(['ok', 'not_found']).toContain(codes(activated)[0])
    const keys = rotated.map(({ key }) => key)
    expect(new Set([licence.key, ...keys]).size).toBe(3)
    const now = await licenceOf(harness, licence)
    for (const key of [licence.key, ...keys]) {
      const [code] = codes(
        await Promise.allSettled([untilAvailable(() => activate(either(round).products, { key }))]),
      )
      expect(code).toBe(key === now.key ? 'ok' : 'not_found')
    }
    const rotations = (await history(harness, licence)).filter(({ type }) => type === 'key_rotated')
    expect(rotations).toHaveLength(2)
  }
  await expectNoDeadlock(harness)
})
