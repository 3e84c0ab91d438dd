import { fullTest } from '@licensing/test-support/drawn'
import { setQuota } from '@licensing/quotas/quota-queries'
import { expect, test } from 'vitest'
import { givenLicence, history, verbOn, update, listedIds, atOnce } from '../../test/makers.ts'
import { forFile, startHarness, newVendor } from '../../test/harness.ts'
import { callOf, givenActivation } from '../../test/products.ts'

const harness = await forFile(startHarness)
const { products: other } = await harness.replica()

async function rowsOf(table: 'call_homes' | 'licence_hosts', licence: { id: string }): Promise<number> {
  const [row] = await harness.sql<{ count: number }[]>`
    select count(*)::int as count from ${harness.sql(table)} where licence_id = ${licence.id}`
  return row!.count
}

test('after 3,000 call-homes through two replicas at once, the latest 50 are stored', async () => {
  const own = newVendor(harness)
  const licence = await givenLicence(own)
  const grants = await atOnce(3, () => givenActivation(own.products, licence))
  for (let round = 0; round < 15; round += 1) {
    await atOnce(200, (at) =>
      [own.products, other][at % 2]!.recordCallHome(callOf(grants[at % 3]!, { productVersion: `${round}` })),
    )
    expect(await rowsOf('call_homes', licence)).toBe(50)
  }
  const { licensing, accountId } = own
  const { callHome } = await licensing.getLicence({ accountId, licenceId: licence.id })
  expect(callHome.map(({ productVersion }) => productVersion)).toEqual(Array(50).fill('14'))
})

test('if a product reports a new host with each call, each replaces the host that was seen longest ago', async () => {
  const own = newVendor(harness)
  const licence = await givenLicence(own, { domains: ['allowed.example.com', '*.seen.example.com'] })
  await setQuota(own.sql, own.accountId, 'hosts', 20)
  const grant = await givenActivation(own.products, licence, { host: 'a.seen.example.com' })
  for (let call = 0; call < 60; call += 1) {
    await own.products.recordCallHome(callOf(grant, { host: `h${call}.seen.example.com` }))
  }
  // The two domains stay, because they do not count as seen hosts.
  expect(await rowsOf('licence_hosts', licence)).toBe(22)
  expect(await listedIds(own, { domain: 'h59.seen.example.com' })).toEqual([licence.id])
  expect(await listedIds(own, { domain: 'h40.seen.example.com' })).toEqual([licence.id])
  expect(await listedIds(own, { domain: 'h39.seen.example.com' })).toEqual([])
  expect(await listedIds(own, { domain: 'a.seen.example.com' })).toEqual([])
  expect(await listedIds(own, { domain: 'allowed.example.com' })).toEqual([licence.id])
  expect(await listedIds(own, { domain: '*.seen.example.com' })).toEqual([licence.id])
})

test('a host that is seen every day stays while other hosts are replaced', async () => {
  const own = newVendor(harness)
  const licence = await givenLicence(own)
  await setQuota(own.sql, own.accountId, 'hosts', 5)
  const grant = await givenActivation(own.products, licence, { host: 'daily' })
  for (let call = 0; call < 20; call += 1) {
    await own.products.recordCallHome(callOf(grant, { host: `other-${call}` }))
    await own.sql`
      update licence_hosts set last_seen_at = last_seen_at - interval '25 hours' where licence_id = ${licence.id}`
    await own.products.recordCallHome(callOf(grant, { host: 'daily' }))
  }
  expect(await rowsOf('licence_hosts', licence)).toBe(5)
  expect(await listedIds(own, { domain: 'daily' })).toEqual([licence.id])
})

test('a removed domain still finds the licence if it was seen as a host, otherwise not', async () => {
  const own = newVendor(harness)
  const licence = await givenLicence(own, { domains: ['seen.example.com', 'unseen.example.com'] })
  await givenActivation(own.products, licence, { host: 'seen.example.com' })
  await update(own, licence, { restrictions: { domains: ['other.example.com'] } })
  expect(await listedIds(own, { domain: 'seen.example.com' })).toEqual([licence.id])
  expect(await listedIds(own, { domain: 'unseen.example.com' })).toEqual([])
})

fullTest(
  'if a product activates and frees in a loop, the history keeps its newest entries and all entries of the vendor',
  async () => {
    const own = newVendor(harness)
    const licence = await givenLicence(own)
    await setQuota(own.sql, own.accountId, 'deactivations', 10)
    const comeAndGo = async () => {
      const grant = await givenActivation(own.products, licence)
      await own.products.deactivate(callOf(grant))
      return grant.activationId
    }
    const freed: string[] = []
    for (let round = 0; round < 40; round += 1) {
      freed.push(await comeAndGo())
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
  },
)
