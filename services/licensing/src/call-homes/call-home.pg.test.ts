import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { archive, givenLicence, givenPlan, detailOf, listedIds, atOnce } from '../../test/makers.ts'
import { forFile, startHarness } from '../../test/harness.ts'
import { callOf, givenActivation } from '../../test/products.ts'

const harness = await forFile(startHarness)

test('an activation, a refresh and a call-home each add an entry with host and version, newest first', async () => {
  const licence = await givenLicence(harness)
  const { products } = harness
  const at = { fingerprint: 'machine', host: 'A.example.com', productVersion: '1.0' }
  const grant = await givenActivation(products, licence, at)
  await products.refreshActivation(callOf(grant, { host: 'b.example.com', productVersion: '1.1' }))
  await products.recordCallHome(callOf(grant, { host: 'C.Example.com', productVersion: '1.2' }))
  const detail = await detailOf(harness, licence)
  expect(detail.callHome.map(({ host, productVersion }) => `${host} ${productVersion}`)).toEqual([
    'c.example.com 1.2',
    'b.example.com 1.1',
    'a.example.com 1.0',
  ])
  const [activation, ...others] = detail.activations
  expect(others).toEqual([])
  expect(activation).toMatchObject({
    id: grant.activationId,
    fingerprint: 'machine',
    host: 'c.example.com',
    productVersion: '1.2',
  })
  const [latest] = detail.callHome
  expect(activation!.lastSeenAt).toEqual(latest!.seenAt)
  expect(timestampDate(activation!.createdAt!) <= timestampDate(latest!.seenAt!)).toBe(true)
  expect(Math.abs(timestampDate(latest!.seenAt!).getTime() - Date.now())).toBeLessThan(60_000)
})

test('calls that arrive together on two replicas are all recorded', async () => {
  const replicas = [harness.products, (await harness.replica()).products]
  const licences = await atOnce(5, () => givenLicence(harness))
  const grants = await Promise.all(
    licences.flatMap((licence) => [1, 2].map(() => givenActivation(harness.products, licence))),
  )
  await atOnce(200, (call) =>
    replicas[call % 2]!.recordCallHome(
      callOf(grants[call % grants.length]!, { host: `host-${call}.example.com` }),
    ),
  )
  for (const licence of licences) {
    const [recorded] = await harness.sql<{ calls: number; hosts: number }[]>`
      select (select count(*)::int from call_homes where licence_id = ${licence.id}) as calls,
        (select count(*)::int from licence_hosts where licence_id = ${licence.id}) as hosts`
    expect(recorded).toEqual({ calls: 42, hosts: 41 })
  }
})

test('licences are found by the time of their last call-home, and by never having called', async () => {
  const [seen, unseen] = [await givenLicence(harness), await givenLicence(harness)]
  expect(await listedIds(harness, { limit: 200, neverSeen: true })).toEqual(
    expect.arrayContaining([seen.id, unseen.id]),
  )
  const before = new Date()
  const grant = await givenActivation(harness.products, seen)
  const never = await listedIds(harness, { limit: 200, neverSeen: true })
  expect(never).toContain(unseen.id)
  expect(never).not.toContain(seen.id)
  expect(await listedIds(harness, { limit: 200, seenSince: timestampFromDate(before) })).toContain(seen.id)

  const seenAt = timestampDate((await detailOf(harness, seen)).callHome[0]!.seenAt!)
  expect(await listedIds(harness, { limit: 200, seenSince: timestampFromDate(seenAt) })).toContain(seen.id)
  const after = timestampFromDate(new Date(seenAt.getTime() + 1))
  expect(await listedIds(harness, { limit: 200, seenSince: after })).not.toContain(seen.id)
  await eventually(async () => {
    await harness.products.recordCallHome(callOf(grant))
    expect(await listedIds(harness, { limit: 200, seenSince: after })).toContain(seen.id)
  })
  expect(await listedIds(harness, { limit: 200, seenSince: after })).not.toContain(unseen.id)
})

test('a long lock on a licence delays only its own first call-home, which is recorded in the end', async () => {
  const [held, free] = [await givenLicence(harness), await givenLicence(harness)]
  const grants = await Promise.all([held, free].map((licence) => givenActivation(harness.products, licence)))
  await harness.sql`update licences set seen = false where id in (${held.id}, ${free.id})`
  const [heldGrant, freeGrant] = grants as [(typeof grants)[0], (typeof grants)[0]]

  let first: Promise<unknown> | undefined
  let isDone = false
  await harness.sql.begin(async (tx) => {
    await tx`select id from licences where id = ${held.id} for update`
    first = harness.products.recordCallHome(callOf(heldGrant)).finally(() => (isDone = true))
    for (let call = 0; call < 20; call += 1) {
      await harness.products.recordCallHome(callOf(freeGrant))
      await harness.products.refreshActivation(callOf(freeGrant))
    }
    expect(isDone).toBe(false)
    expect(await listedIds(harness, { limit: 200, neverSeen: true })).not.toContain(free.id)
  })
  await first
  expect(await listedIds(harness, { limit: 200, neverSeen: true })).not.toContain(held.id)
})

test('while an archive suspends many licences, other licences call home, and all calls are recorded', async () => {
  const plan = await givenPlan(harness)
  const licences = await atOnce(200, () => givenLicence(harness, { planId: plan.id }))
  const grants = await Promise.all(
    licences.slice(0, 50).map((licence) => givenActivation(harness.products, licence)),
  )
  await harness.sql`update licences set seen = false where plan_id = ${plan.id}`
  const [{ suspendedLicences }] = await Promise.all([
    archive(harness, plan),
    ...grants.map((grant) => harness.products.recordCallHome(callOf(grant))),
  ])
  expect(suspendedLicences).toBe(200n)
  const never = await listedIds(harness, { limit: 200, neverSeen: true, planId: plan.id })
  expect(never).toHaveLength(150)
})
