import { newId } from '@licensing/database/ids'
import { lockWaits } from '@licensing/test-support/lock-waits'
import { eventually } from '@licensing/test-support/poll'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { forFile, startHarness } from '../harness.ts'
import type { Harness } from '../harness.ts'
import {
  archive,
  givenLicence,
  givenPlan,
  issue,
  statusOf,
  verbOn,
  update,
  importItems,
  atOnce,
} from '../makers.ts'
import { activate, activateOffline } from '../products.ts'

const harness = await forFile(startHarness)

/** Holds the locks of an unfinished archive: the plan, and its licences. */
async function heldByArchive(planId: string) {
  const connection = await harness.deps.lists.reserve()
  await connection`begin`
  await connection`select 1 from plans where id = ${planId} for update`
  await connection`select 1 from licences where plan_id = ${planId} for update`
  return {
    async end() {
      await connection`commit`
      connection.release()
    },
  }
}

/** Connections of the service that wait for a lock. */
const waiting = () => lockWaits(harness.deps.lists)

test('verbs, activations and issues that wait for an archive occupy no connections, and finish after it', async () => {
  const { licensing, products } = harness
  const plan = await givenPlan(harness)
  const licences = await atOnce(60, () => givenLicence(harness, { planId: plan.id }))
  const neighbour = { ...harness, accountId: newId('acct'), applicationId: newId('app') }
  const elsewhere = await givenLicence(neighbour, { planId: (await givenPlan(neighbour)).id })
  const grant = await products.activate({
    licenceKey: elsewhere.key,
    fingerprint: 'f',
    host: 'h',
    productVersion: '1',
  })
  expect(grant.created).toBe(true)

  const held = await heldByArchive(plan.id)
  const machine = { host: 'machine.example.com', productVersion: '1' }
  const asked = licences.map(async (licence, at) => {
    // Four times as many as the pool has connections.
    if (at % 4 === 0) return licensing.suspendLicence(verbOn(harness, licence))
    if (at % 4 === 1) return products.activate({ licenceKey: licence.key, fingerprint: `m${at}`, ...machine })
    if (at % 4 === 2) return update(harness, licence, { externalRef: `ref-${at}` })
    return importItems(harness, [{ legacyKey: `old-${at}`, planId: plan.id }])
  })
  const issued = issue(harness, { planId: plan.id })
  await licensing.getLicence({ accountId: neighbour.accountId, licenceId: elsewhere.id })
  await licensing.suspendLicence(verbOn(neighbour, elsewhere))
  await harness.sql`select 1`
  // Before the calls time out: two of the 60 waiting calls try again at a time.
  await eventually(async () => expect(await waiting()).toBeLessThanOrEqual(3), { timeoutMs: 3_000 })
  await held.end()
  for (const outcome of await Promise.allSettled([...asked, issued])) {
    // On a slow machine the archive may have lasted longer than they wait.
    if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'unavailable' })
  }
  await licensing.revokeLicence(verbOn(harness, licences[0]!))
  expect(await statusOf(harness, licences[0]!)).toBe('revoked')
})

test('a call that waits longer than four seconds gets unavailable, and changes nothing', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: plan.id })
  const held = await heldByArchive(plan.id)
  try {
    await expect(harness.licensing.suspendLicence(verbOn(harness, licence))).rejects.toMatchObject({
      code: 'unavailable',
    })
  } finally {
    await held.end()
  }
  expect(await statusOf(harness, licence)).toBe('active')
})

test('an archive pauses between two steps for as long as the first took', async () => {
  const plan = await givenPlan(harness)
  // One more licence than a step changes.
  const licences = await atOnce(101, () => givenLicence(harness, { planId: plan.id }))
  const [first] = licences.map(({ id }) => id).sort()
  const verb = await harness.deps.lists.reserve()
  await verb`begin`
  await verb`select 1 from licences where id = ${first!} for update`
  const archived = archive(harness, plan)
  await eventually(async () => expect(await waiting()).toBe(1))
  await sleep(100)
  await verb`commit`
  verb.release()
  await archived
  const times = await harness.sql<{ at: number }[]>`
    select extract(epoch from updated_at)::float8 * 1000 as at from licences where plan_id = ${plan.id} order by id`
  expect(times.at(100)!.at - times.at(99)!.at).toBeGreaterThan(45)
})

test('new machines of many licences share a transaction, and a licence that is locked delays only its own', async () => {
  const [plan, archived] = [await givenPlan(harness), await givenPlan(harness)]
  const licences = await atOnce(20, () => givenLicence(harness, { planId: plan.id }))
  const locked = await givenLicence(harness, { planId: archived.id })
  const held = await heldByArchive(archived.id)
  let isAnswered = false
  const waits = activate(harness.products, locked).then(() => (isAnswered = true))
  await atOnce(20, (at) => activate(harness.products, licences[at]!))
  expect(isAnswered).toBe(false)
  // The `xmax` of a row is the last transaction that has locked it.
  const [row] = await harness.sql<{ transactions: number }[]>`
    select count(distinct xmax::text)::int as transactions from licences
    where id = any(${licences.map(({ id }) => id)}::text[])`
  expect(row!.transactions).toBeLessThanOrEqual(5)
  await held.end()
  await waits
})

test.each([
  ['has a lease', { maxConcurrent: 5 }, activate],
  [
    'gets a file',
    {},
    (_: Harness['products'], licence: { key: string }, machine?: { fingerprint: string }) =>
      activateOffline(harness, licence, machine),
  ],
] as const)(
  'an activation that %s delays only its own licence while it is locked',
  async (_, fields, call) => {
    const [licence, ...others] = await atOnce(5, () => givenLicence(harness, fields))
    const machine = { fingerprint: 'known' }
    await call(harness.products, licence!, machine)
    const connection = await harness.deps.lists.reserve()
    await connection`begin`
    await connection`select from activations where licence_id = ${licence!.id} for update`
    let isAnswered = false
    const waits = call(harness.products, licence!, machine).then(() => (isAnswered = true))
    await Promise.all(others.map((other) => call(harness.products, other)))
    expect(isAnswered).toBe(false)
    await connection`commit`
    connection.release()
    await waits
  },
)
