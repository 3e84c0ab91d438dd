import type { PlanCopy } from '@licensing/proto/catalog'
import { constantFrom, sample } from 'fast-check'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { sweepExpiries } from '../../src/sweeps/sweep-expiries.ts'
import type { Harness } from '../harness.ts'
import {
  activeOn,
  archive,
  countedOn,
  events,
  givenPlan,
  history,
  issue,
  restore,
  findWrongSnapshots,
  findWrongStatuses,
  statusOf,
  verbOn,
} from '../makers.ts'
import { happen, inDays, provision, renew, unique } from '../purchases.ts'
import { expectNoDeadlock, raceLimit, rounds, startReplicas, untilAvailable } from '../races.ts'
import type { Replicas } from '../races.ts'

vi.setConfig(raceLimit)

let replicas: Replicas
let harness: Harness
let other: Harness
beforeAll(async () => {
  replicas = await startReplicas()
  ;({ harness, other } = replicas)
})
afterAll(() => replicas[Symbol.asyncDispose]())

interface Place {
  replica: Harness
  licence: { id: string }
  customer: string
  plan: { id: string }
}

const calls: ((at: Place) => Promise<unknown>)[] = [
  ({ replica, licence }) => replica.licensing.suspendLicence(verbOn(replica, licence)),
  ({ replica, licence }) => replica.licensing.reactivateLicence(verbOn(replica, licence)),
  ({ replica, licence }) => replica.licensing.reactivateLicence(verbOn(replica, licence)),
  ({ replica, licence }) => happen(replica, licence, 'failed payments'),
  ({ replica, licence }) => happen(replica, licence, 'an inquiry'),
  ({ replica, licence }) => happen(replica, licence, 'an inquiry that closes'),
  ({ replica, licence }) => happen(replica, licence, 'a cancelled subscription'),
  ({ replica, licence }) => happen(replica, licence, 'a partial refund'),
  ({ replica, licence }) => renew(replica, licence, inDays(30)),
  ({ replica, customer, plan }) =>
    provision(replica, { planId: plan.id, externalRef: customer, expiresOn: inDays(-1) }),
  ({ replica, customer, plan }) => provision(replica, { planId: plan.id, externalRef: customer }),
  ({ replica, plan }) => issue(replica, { planId: plan.id }),
  ({ replica }) => sweepExpiries(replica.deps),
]
const emitting = new Set([
  'created',
  'plan_changed',
  'suspended',
  'reactivated',
  'revoked',
  'retired',
  'expired',
  'downgraded',
])

test('after any concurrent calls the counts are exact, no retired plan has an active licence, each history is a chain, and events match it', async () => {
  for (const _ of rounds) {
    const plans = [await givenPlan(harness), await givenPlan(harness)]
    const customers = [1, 2, 3].map(() => unique('buyer'))
    const paid = await Promise.all(
      customers.map((externalRef, at) => provision(harness, { planId: plans[at % 2]!.id, externalRef })),
    )
    const licences = paid.map(({ licence }) => licence)
    const drawn = sample(constantFrom(...calls), 50)
    const outcomes = await Promise.allSettled([
      archiveAndRestore(plans[0]!),
      ...drawn.map((call, at) =>
        untilAvailable(() =>
          call({
            replica: at % 2 === 0 ? harness : other,
            licence: licences[at % 3]!,
            customer: customers[at % 3]!,
            plan: plans[at % 2]!,
          }),
        ),
      ),
    ])

    const refused = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []))
    const codes = new Set(refused.map((error: { code: string }) => error.code))
    expect([...codes].filter((code) => code !== 'conflict' && code !== 'plan_archived')).toEqual([])
    for (const plan of plans) expect(await activeOn(harness, plan)).toBe(await countedOn(harness, plan))
    expect(await activeOn(harness, plans[0]!)).toBe(0n)
    for (const licence of licences) await expectOneStory(licence)
    expect(await findWrongStatuses(harness)).toEqual([])
    expect(await findWrongSnapshots(harness)).toEqual({ missing: [], unused: [] })
  }
  await expectNoDeadlock(harness)
})

/** Archives and restores the plan several times, and leaves it archived. */
async function archiveAndRestore(plan: PlanCopy): Promise<void> {
  for (let time = 0; time < 3; time += 1) {
    await untilAvailable(() => archive(other, plan))
    await untilAvailable(() => restore(other, plan))
  }
  await untilAvailable(() => archive(other, plan))
}

async function expectOneStory(licence: { id: string }): Promise<void> {
  const entries = await history(harness, licence)
  expect(entries.map((entry) => entry.from).slice(1)).toEqual(entries.map((entry) => entry.to).slice(0, -1))
  expect(entries.at(-1)!.to).toBe(await statusOf(harness, licence))
  // If a renewal finds the plan retired, only the reason of the suspension changes, without an event.
  const silent = (entry: (typeof entries)[number]) => entry.type === 'suspended' && entry.from === 'suspended'
  // A change to a retired plan also suspends the licence. The event of the plan change contains that status already.
  const becomes = (entry: (typeof entries)[number]) => {
    const next = entries[entries.indexOf(entry) + 1]
    const isTaken = entry.type === 'plan_changed' && next?.type === 'suspended'
    return isTaken && next.cause === entry.cause ? next.to : entry.to
  }
  expect((await events(harness, licence)).map(({ type, object }) => [type, object['status']])).toEqual(
    entries
      .filter((entry) => emitting.has(entry.type) && !silent(entry))
      .map((entry) => [`licence.${entry.type}`, becomes(entry)]),
  )
}
