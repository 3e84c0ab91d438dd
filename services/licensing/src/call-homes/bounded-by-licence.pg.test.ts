import { newId } from '@licensing/database/ids'
import { setQuota } from '@licensing/quotas/quota-queries'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addUp } from '../application-days/day-queries.ts'
import { firstPage, givenLicence, givenPlan, history, verbOn } from '../../test/makers.ts'
import { callOf, givenActivation, startProducts } from '../../test/products.ts'
import type { Products, ProductsHarness } from '../../test/products.ts'

let harness: ProductsHarness
let other: Products
beforeAll(async () => {
  harness = await startProducts()
  other = await harness.otherProducts()
})
afterAll(() => harness[Symbol.asyncDispose]())

/** The same service with a new account, which has its own quotas. */
const withOwnAccount = (): ProductsHarness => ({
  ...harness,
  accountId: newId('acct'),
  applicationId: newId('app'),
})

async function givenKey(own: ProductsHarness, domains: string[] = []) {
  const plan = await givenPlan(own)
  return givenLicence(own, { planId: plan.id, ...(domains.length > 0 && { domains }) })
}

async function rowsOf(table: 'call_homes' | 'licence_hosts', licence: { id: string }): Promise<number> {
  const [row] = await harness.sql<{ count: number }[]>`
    select count(*)::int as count from ${harness.sql(table)} where licence_id = ${licence.id}`
  return row!.count
}

async function foundBy(own: ProductsHarness, domain: string): Promise<string[]> {
  const { accountId, applicationId } = own
  const page = await own.licensing.listLicences({
    accountId,
    applicationId,
    ...firstPage,
    neverSeen: false,
    domain,
  })
  return page.licences.map(({ id }) => id)
}

test('after 3,000 call-homes through two replicas at once, the latest 50 are stored', async () => {
  const own = withOwnAccount()
  const licence = await givenKey(own)
  const grants = await Promise.all(Array.from({ length: 3 }, () => givenActivation(own.products, licence)))
  for (let round = 0; round < 15; round += 1) {
    await Promise.all(
      Array.from({ length: 200 }, (_, at) =>
        [own.products, other][at % 2]!.recordCallHome(
          callOf(grants[at % 3]!, { productVersion: `${round}` }),
        ),
      ),
    )
    expect(await rowsOf('call_homes', licence)).toBe(50)
  }
  const { licensing, accountId } = own
  const { callHome } = await licensing.getLicence({ accountId, licenceId: licence.id })
  expect(callHome.map(({ productVersion }) => productVersion)).toEqual(Array(50).fill('14'))
})

test('if a product reports a new host with each call, each replaces the host that was seen longest ago', async () => {
  const own = withOwnAccount()
  const licence = await givenKey(own, ['allowed.example.com', '*.seen.example.com'])
  await setQuota(own.sql, own.accountId, 'hosts', 20)
  const grant = await givenActivation(own.products, licence, { host: 'a.seen.example.com' })
  for (let call = 0; call < 60; call += 1) {
    await own.products.recordCallHome(callOf(grant, { host: `h${call}.seen.example.com` }))
  }
  // The two domains stay, because they do not count as seen hosts.
  expect(await rowsOf('licence_hosts', licence)).toBe(22)
  expect(await foundBy(own, 'h59.seen.example.com')).toEqual([licence.id])
  expect(await foundBy(own, 'h40.seen.example.com')).toEqual([licence.id])
  expect(await foundBy(own, 'h39.seen.example.com')).toEqual([])
  expect(await foundBy(own, 'a.seen.example.com')).toEqual([])
  expect(await foundBy(own, 'allowed.example.com')).toEqual([licence.id])
  expect(await foundBy(own, '*.seen.example.com')).toEqual([licence.id])
})

test('a host that is seen every day stays while other hosts are replaced', async () => {
  const own = withOwnAccount()
  const licence = await givenKey(own)
  await setQuota(own.sql, own.accountId, 'hosts', 5)
  const grant = await givenActivation(own.products, licence, { host: 'daily' })
  for (let call = 0; call < 20; call += 1) {
    await own.products.recordCallHome(callOf(grant, { host: `other-${call}` }))
    await own.sql`
      update licence_hosts set last_seen_at = last_seen_at - interval '25 hours' where licence_id = ${licence.id}`
    await own.products.recordCallHome(callOf(grant, { host: 'daily' }))
  }
  expect(await rowsOf('licence_hosts', licence)).toBe(5)
  expect(await foundBy(own, 'daily')).toEqual([licence.id])
})

test('a removed domain still finds the licence if it was seen as a host, otherwise not', async () => {
  const own = withOwnAccount()
  const licence = await givenKey(own, ['seen.example.com', 'unseen.example.com'])
  await givenActivation(own.products, licence, { host: 'seen.example.com' })
  await own.licensing.updateLicence({
    ...verbOn(own, licence),
    restrictions: { domains: ['other.example.com'] },
    neverExpires: false,
  })
  expect(await foundBy(own, 'seen.example.com')).toEqual([licence.id])
  expect(await foundBy(own, 'unseen.example.com')).toEqual([])
})

test('if a product activates and frees in a loop, the history keeps its newest entries and all entries of the vendor', async () => {
  const own = withOwnAccount()
  const licence = await givenKey(own)
  await setQuota(own.sql, own.accountId, 'deactivations', 10)
  const comeAndGo = async () => {
    const grant = await givenActivation(own.products, licence)
    await own.products.deactivate(callOf(grant))
    return grant.activationId
  }
  const freed: string[] = []
  for (let round = 0; round < 40; round += 1) {
    freed.push(await comeAndGo())
    await addUp(own.sql, 1_000)
    if (round % 10 === 0) {
      await own.licensing.suspendLicence(verbOn(own, licence))
      await own.licensing.reactivateLicence(verbOn(own, licence))
      const { activationId } = await givenActivation(own.products, licence)
      await own.licensing.freeActivation({ ...verbOn(own, licence), activationId })
    }
  }
  const entries = await history(own, licence)
  const byProduct = entries.filter(({ actor }) => actor === 'product')
  expect(byProduct.map(({ cause }) => cause)).toEqual(freed.slice(-10))
  const byVendor = entries.filter(({ actor }) => actor !== 'product').map(({ type }) => type)
  const round = ['suspended', 'reactivated', 'activation_freed']
  expect(byVendor).toEqual(['issued', ...round, ...round, ...round, ...round])
  // Entries that were deleted from the history stay counted.
  const today = new Date().toISOString().slice(0, 10)
  const { accountId, applicationId } = own
  const { days } = await own.licensing.getApplicationDays({
    accountId,
    applicationId,
    from: today,
    to: today,
  })
  expect(days.at(-1)).toMatchObject({ activationsFreed: 44n })
})

test('an entry is not deleted before it has been counted by day', async () => {
  const own = withOwnAccount()
  const licence = await givenKey(own)
  await setQuota(own.sql, own.accountId, 'deactivations', 2)
  // Blocks the counting.
  await own.sql.begin(async (tx) => {
    await tx`select from counted_history for update`
    for (let round = 0; round < 6; round += 1) {
      await own.products.deactivate(callOf(await givenActivation(own.products, licence)))
    }
    expect(await history(own, licence)).toHaveLength(7)
  })
  await eventually(async () => {
    await addUp(own.sql, 1_000)
    await own.products.deactivate(callOf(await givenActivation(own.products, licence)))
    expect(await history(own, licence)).toHaveLength(3)
  })
})
