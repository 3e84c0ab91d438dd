import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { ListLicencesRequest } from '@licensing/proto/licensing'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { archive, firstPage, givenLicence, givenPlan } from '../../test/makers.ts'
import { callOf, givenActivation, startProducts } from '../../test/products.ts'
import type { ProductsHarness } from '../../test/products.ts'

let harness: ProductsHarness
beforeAll(async () => {
  harness = await startProducts()
})
afterAll(() => harness[Symbol.asyncDispose]())

async function givenKey() {
  const plan = await givenPlan(harness)
  return givenLicence(harness, { planId: plan.id })
}

const detailOf = (licence: { id: string }) =>
  harness.licensing.getLicence({ accountId: harness.accountId, licenceId: licence.id })

type Filter = Partial<Pick<ListLicencesRequest, 'domain' | 'planId' | 'neverSeen' | 'seenSince'>>

async function listed(filter: Filter): Promise<string[]> {
  const { accountId, applicationId } = harness
  const page = await harness.licensing.listLicences({
    accountId,
    applicationId,
    ...firstPage,
    limit: 200,
    neverSeen: false,
    ...filter,
  })
  return page.licences.map((licence) => licence.id)
}

test('an activation, a refresh and a call-home each add an entry with host and version, newest first', async () => {
  const licence = await givenKey()
  const { products } = harness
  const at = { fingerprint: 'machine', host: 'A.example.com', productVersion: '1.0' }
  const grant = await givenActivation(products, licence, at)
  await products.refreshActivation(callOf(grant, { host: 'b.example.com', productVersion: '1.1' }))
  await products.recordCallHome(callOf(grant, { host: 'C.Example.com', productVersion: '1.2' }))
  const detail = await detailOf(licence)
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

test('the detail shows the latest 50 call-homes in their order', async () => {
  const licence = await givenKey()
  const grant = await givenActivation(harness.products, licence, { productVersion: 'first' })
  for (let call = 1; call <= 60; call += 1) {
    await harness.products.recordCallHome(callOf(grant, { productVersion: `v${call}` }))
  }
  const { callHome } = await detailOf(licence)
  expect(callHome.map((call) => call.productVersion)).toEqual(
    Array.from({ length: 50 }, (_, at) => `v${60 - at}`),
  )
})

test('calls that arrive together on two replicas are all recorded', async () => {
  const replicas = [harness.products, await harness.otherProducts()]
  const licences = await Promise.all(Array.from({ length: 5 }, givenKey))
  const grants = await Promise.all(
    licences.flatMap((licence) => [1, 2].map(() => givenActivation(harness.products, licence))),
  )
  await Promise.all(
    Array.from({ length: 200 }, (_, call) =>
      replicas[call % 2]!.recordCallHome(
        callOf(grants[call % grants.length]!, { host: `host-${call}.example.com` }),
      ),
    ),
  )
  for (const licence of licences) {
    const [recorded] = await harness.sql<{ calls: number; hosts: number }[]>`
      select (select count(*)::int from call_homes where licence_id = ${licence.id}) as calls,
        (select count(*)::int from licence_hosts where licence_id = ${licence.id}) as hosts`
    expect(recorded).toEqual({ calls: 42, hosts: 41 })
  }
})

test('licences are found by the hosts that they were seen on', async () => {
  const [here, there] = [await givenKey(), await givenKey()]
  const grant = await givenActivation(harness.products, here, { host: 'Found.example.com' })
  await givenActivation(harness.products, there, { host: 'elsewhere.example.com' })
  expect(await listed({ domain: 'found.example.com' })).toEqual([here.id])
  await harness.products.recordCallHome(callOf(grant, { host: 'moved.example.com' }))
  expect(await listed({ domain: 'MOVED.example.com' })).toEqual([here.id])
  expect(await listed({ domain: 'found.example.com' })).toEqual([here.id])
  await harness.products.deactivate(callOf(grant))
  expect(await listed({ domain: 'moved.example.com' })).toEqual([here.id])
})

test('licences are found by the time of their last call-home, and by never having called', async () => {
  const [seen, unseen] = [await givenKey(), await givenKey()]
  expect(await listed({ neverSeen: true })).toEqual(expect.arrayContaining([seen.id, unseen.id]))
  const before = new Date()
  const grant = await givenActivation(harness.products, seen)
  const never = await listed({ neverSeen: true })
  expect(never).toContain(unseen.id)
  expect(never).not.toContain(seen.id)
  expect(await listed({ seenSince: timestampFromDate(before) })).toContain(seen.id)

  const seenAt = timestampDate((await detailOf(seen)).callHome[0]!.seenAt!)
  expect(await listed({ seenSince: timestampFromDate(seenAt) })).toContain(seen.id)
  const after = timestampFromDate(new Date(seenAt.getTime() + 1))
  expect(await listed({ seenSince: after })).not.toContain(seen.id)
  await eventually(async () => {
    await harness.products.recordCallHome(callOf(grant))
    expect(await listed({ seenSince: after })).toContain(seen.id)
  })
  expect(await listed({ seenSince: after })).not.toContain(unseen.id)
})

test('a long lock on a licence delays only its own first call-home, which is recorded in the end', async () => {
  const plan = await givenPlan(harness)
  const [held, free] = [await givenKey(), await givenLicence(harness, { planId: plan.id })]
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
    expect(await listed({ neverSeen: true })).not.toContain(free.id)
  })
  await first
  expect(await listed({ neverSeen: true })).not.toContain(held.id)
})

test('while an archive suspends many licences, other licences call home, and all calls are recorded', async () => {
  const plan = await givenPlan(harness)
  const licences = await Promise.all(
    Array.from({ length: 200 }, () => givenLicence(harness, { planId: plan.id })),
  )
  const grants = await Promise.all(
    licences.slice(0, 50).map((licence) => givenActivation(harness.products, licence)),
  )
  await harness.sql`update licences set seen = false where plan_id = ${plan.id}`
  const [{ suspendedLicences }] = await Promise.all([
    archive(harness, plan),
    ...grants.map((grant) => harness.products.recordCallHome(callOf(grant))),
  ])
  expect(suspendedLicences).toBe(200n)
  const never = await listed({ neverSeen: true, planId: plan.id })
  expect(never).toHaveLength(150)
})
