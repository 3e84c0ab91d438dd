import { fullTest } from '@licensing/test-support/drawn'
import type { Licence } from '@licensing/proto/licensing'
import type { TokenGrant } from '@licensing/proto/products'
import { constantFrom, sample } from 'fast-check'
import { expect, test } from 'vitest'
import { expectLeasesConsistent, leasesRunning, passMinutes, setConcurrent } from '../leases.ts'
import { givenLicence, verbOn, atOnce, settledAtOnce } from '../makers.ts'
import type { IssueFields } from '../makers.ts'
import { startHarness, forFile } from '../harness.ts'
import type { Harness } from '../harness.ts'
import { activate, callOf } from '../products.ts'
import { assignSlots } from '../../src/activations/slots.ts'
import { codes, expectNoDeadlock, rounds, untilAvailable } from '../races.ts'

const harness = await forFile(startHarness)
// The clock of this replica is an hour behind.
const late = await harness.replica({ now: () => new Date(Date.now() - 3_600_000) })
const other = { ...harness, ...late }

const replicaAt = (at: number) => (at % 2 === 0 ? harness : other)

const given = (fields: IssueFields = {}) => givenLicence(harness, fields)

/** Counts the leases until it is stopped. @returns the most that had not ended at one time */
function watch(licence: Licence) {
  const done = new AbortController()
  let max = 0
  const watching = (async () => {
    while (!done.signal.aborted) max = Math.max(max, await leasesRunning(harness, licence))
  })()
  return async () => {
    done.abort()
    await watching
    return max
  }
}

test('if 300 clients of two replicas activate at once, exactly max_concurrent get a lease', async () => {
  for (const round of rounds.slice(0, rounds.length / 4)) {
    const maxConcurrent = 1 + round * 7
    const licence = await given({ maxConcurrent })
    const stop = watch(licence)
    const outcomes = await settledAtOnce(300, (at) =>
      untilAvailable(() => activate(replicaAt(at).products, licence, { fingerprint: `m-${at}` })),
    )
    expect(await stop()).toBe(maxConcurrent)
    expect(codes(outcomes).filter((code) => code === 'ok')).toHaveLength(maxConcurrent)
    expect(new Set(codes(outcomes))).toEqual(new Set(['ok', 'limit_reached']))
  }
  await expectLeasesConsistent(harness)
  await expectNoDeadlock(harness)
})

fullTest('if leases end while others refresh and activate, each lease that is given was free', async () => {
  for (const _ of rounds) {
    const licence = await given({ maxConcurrent: 10 })
    const grants = await atOnce(10, (at) => activate(harness.products, licence, { fingerprint: `m-${at}` }))
    // Leases end one after the other during the race.
    await harness.sql`
      update leases set ends_at = clock_timestamp() + random() * interval '100 milliseconds'
      where licence_id = ${licence.id}`
    const stop = watch(licence)
    const outcomes = await Promise.allSettled([
      ...grants.flatMap(({ grant }, at) =>
        [at, at + 1].map((place) =>
          untilAvailable(() => replicaAt(place).products.refreshActivation(callOf(grant!))),
        ),
      ),
      ...Array.from({ length: 30 }, (_, at) =>
        untilAvailable(() => activate(replicaAt(at).products, licence)),
      ),
    ])
    expect(await stop()).toBeLessThanOrEqual(10)
    const surprises = codes(outcomes).filter((code) => code !== 'ok' && code !== 'limit_reached')
    expect(surprises).toEqual([])
    await expectLeasesConsistent(harness)
  }
  await expectNoDeadlock(harness)
})

test('if 32 products release or deactivate at once through two replicas, exactly ten leases are free', async () => {
  for (const round of rounds.slice(0, rounds.length / 2)) {
    const licence = await given({ maxConcurrent: 32 })
    const grants = await atOnce(32, (at) => activate(harness.products, licence, { fingerprint: `m-${at}` }))
    await atOnce(32, (at) =>
      untilAvailable(async () => {
        const { products } = replicaAt(at)
        const call = callOf(grants[at]!.grant!)
        return (at + round) % 3 === 0 ? products.deactivate(call) : products.release(call)
      }),
    )
    expect(await leasesRunning(harness, licence)).toBe(22)
    const outcomes = await settledAtOnce(32, (at) =>
      untilAvailable(() => activate(replicaAt(at).products, licence)),
    )
    expect(codes(outcomes).filter((code) => code === 'ok')).toHaveLength(10)
    await expectLeasesConsistent(harness)
  }
  await expectNoDeadlock(harness)
})

test('if a product releases after its slot is given and before it has the token, its lease ends with that token', async () => {
  const licence = await given({ maxConcurrent: 1 })
  for (let times = 0; times < 10; times += 1) {
    await harness.products.release(callOf((await activate(harness.products, licence)).grant!))
  }
  const asked = { fingerprint: 'one', host: 'machine.example.com', productVersion: '1' }
  const { grant } = await activate(harness.products, licence, asked)
  // The next token ends later.
  await passMinutes(harness, 5, { activationIds: [grant!.activationId] })
  const applicant = { ...asked, licenceKey: licence.key, lifeSeconds: 86_400, isOffline: false }
  const [outcome] = await harness.deps.change((tx) => assignSlots(tx, () => new Date(), [applicant]))
  await harness.products.release(callOf(grant!))
  const [row] = await harness.sql<{ ends_at: Date }[]>`
    select ends_at from leases where activation_id = ${grant!.activationId}`
  expect(outcome).toMatchObject({ kind: 'assigned', created: false, tokenEndsAt: row!.ends_at })
})

interface Target {
  replica: Harness
  licence: Licence
  grant: TokenGrant
}

const machine = { host: 'machine.example.com', productVersion: '1' }
const calls: ((at: Target) => Promise<unknown>)[] = [
  ({ replica, licence }) => activate(replica.products, licence),
  ({ replica, licence }) => activate(replica.products, licence, { fingerprint: 'shared' }),
  ({ replica, licence }) =>
    replica.products.activate({
      licenceKey: licence.key,
      fingerprint: 'replacing',
      replace: 'oldest',
      ...machine,
    }),
  ({ replica, grant }) => replica.products.refreshActivation(callOf(grant)),
  ({ replica, grant }) => replica.products.refreshActivation(callOf(grant)),
  ({ replica, grant }) => replica.products.refreshActivation(callOf(grant)),
  ({ replica, grant }) => replica.products.recordCallHome(callOf(grant)),
  ({ replica, grant }) => replica.products.release(callOf(grant)),
  ({ replica, grant }) => replica.products.release(callOf(grant)),
  ({ replica, grant }) => replica.products.deactivate(callOf(grant)),
  ({ replica, licence, grant: { activationId } }) =>
    replica.licensing.freeActivation({ ...verbOn(replica, licence), activationId }),
  ({ replica, licence }) => {
    const { accountId, applicationId } = replica
    const asked = { accountId, applicationId, licenceKey: licence.key, fingerprint: 'island', days: 3 }
    return replica.products.activateOffline({ ...asked, ...machine })
  },
  ({ licence }) => passMinutes(harness, 10, { licence }),
]
const expected = new Set(['ok', 'limit_reached', 'not_found'])

fullTest(
  'after any concurrent calls, leases are consistent and never more than max_concurrent, and no call deadlocks',
  async () => {
    for (const _ of rounds) {
      const licences = await Promise.all(
        [1, 3, 8].map((maxConcurrent) => given({ maxConcurrent, maxActivations: 30 })),
      )
      const targets = await Promise.all(
        licences.map(async (licence) => ({
          licence,
          grant: (await activate(harness.products, licence, { fingerprint: 'first' })).grant!,
          stop: watch(licence),
        })),
      )
      const outcomes = await Promise.allSettled(
        sample(constantFrom(...calls), 150).map((call, at) =>
          untilAvailable(() => call({ ...targets[at % 3]!, replica: replicaAt(at) })),
        ),
      )
      expect(codes(outcomes).filter((code) => !expected.has(code))).toEqual([])
      for (const { licence, stop } of targets) {
        expect(await stop()).toBeLessThanOrEqual(licence.restrictions!.maxConcurrent!)
      }
      await expectLeasesConsistent(harness)
    }
    await expectNoDeadlock(harness)
  },
)

test('while the limit is set, lowered and removed, no call deadlocks and leases stay consistent', async () => {
  for (const _ of rounds.slice(0, rounds.length / 2)) {
    const licence = await given({ maxConcurrent: 5 })
    const { grant } = await activate(harness.products, licence)
    const outcomes = await Promise.allSettled([
      ...[2, null, 1, 5, null, 3].map((max) => setConcurrent(harness, licence, max)),
      ...Array.from({ length: 20 }, (_, at) =>
        untilAvailable(() => replicaAt(at).products.refreshActivation(callOf(grant!))),
      ),
      ...Array.from({ length: 20 }, (_, at) =>
        untilAvailable(() => activate(replicaAt(at).products, licence)),
      ),
    ])
    expect(codes(outcomes).filter((code) => !expected.has(code))).toEqual([])
    await expectLeasesConsistent(harness)
  }
  await expectNoDeadlock(harness)
})
