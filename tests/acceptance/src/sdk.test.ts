import { fullTest } from '@licensing/test-support/drawn'
import { memoryStore } from '@licensing/sdk'
import type { LicenceClientOptions } from '@licensing/sdk'
import { eventually } from '@licensing/test-support/poll'
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { keySet, rotateSigningKey } from './published.ts'
import { expectStatus, givenStack, givenVendor } from './vendor.ts'

const tokenLifeSeconds = 12
const checkIntervalSeconds = 1

const stack = await givenStack({
  environment: {
    TOKEN_LIFE_SECONDS: String(tokenLifeSeconds),
    CHECK_INTERVAL_SECONDS: String(checkIntervalSeconds),
    PRODUCT_RATE_PER_MINUTE: '100000',
  },
})
const vendor = await givenVendor(stack)
await vendor.define('export_pdf', 'feature')
await vendor.define('sso', 'feature')
await vendor.define('max_projects', 'limit', '3')
const entitlements = [
  { key: 'export_pdf', value: 'true' },
  { key: 'max_projects', value: '10' },
]
const plan = await vendor.plan({ entitlements })

const givenLicence = (fields: Record<string, unknown> = {}) => vendor.issue(plan.id, fields)

/** A product that works in the background. */
const installedProduct = (options: Partial<LicenceClientOptions> = {}) =>
  vendor.install({ background: true, ...options })

const tokenEnd = { timeoutMs: tokenLifeSeconds * 1000 + 3_000 }

test('an activated product knows its features and limits, and the vendor sees its host', async () => {
  const licence = await givenLicence({ restrictions: { max_seats: 5, max_activations: 1 } })
  using product = installedProduct({ licenceKey: licence.key.toLowerCase(), fingerprint: 'machine' })
  expect([product.hasFeature('export_pdf'), product.limit('max_projects')]).toEqual([false, 0])
  expect(await product.activate()).toMatchObject({
    status: 'licensed',
    usable: true,
    reason: null,
    licenceId: licence.id,
    planId: plan.id,
    licenceStatus: 'active',
    seats: 5,
    problem: null,
  })
  const features = ['export_pdf', 'sso', 'there_is_no_such_key'].map((key) => product.hasFeature(key))
  expect(features).toEqual([true, false, false])
  expect(product.limit('max_projects')).toBe(10)

  using second = installedProduct({ licenceKey: licence.key })
  expect(await second.activate()).toMatchObject({ status: 'refused', reason: 'limit_reached' })
  expect((await vendor.detail(licence.id)).activations).toMatchObject([
    { fingerprint: 'machine', host: 'build-7.example.com', product_version: '4.2.0' },
  ])
  expect(await product.deactivate()).toMatchObject({ status: 'unlicensed', reason: 'deactivated' })
  expect(await second.activate()).toMatchObject({ status: 'licensed' })
})

test('a revoked licence is refused within the check interval because of the list, although its token is valid', async () => {
  const licence = await givenLicence()
  const withoutRefresh: typeof fetch = (url, init) =>
    new Request(url).url.endsWith('/refresh') ? Promise.reject(new Error('no refresh')) : fetch(url, init)
  const options = { licenceKey: licence.key, fingerprint: 'one', store: memoryStore(), fetch: withoutRefresh }
  using product = installedProduct(options)
  await product.activate()
  await eventually(() => expect(product.state.revocations).toBe('current'))
  expectStatus(await vendor.verb('revoke', licence.id), 200)
  await eventually(() => expect(product.state).toMatchObject({ status: 'refused', reason: 'revoked' }), {
    // The list may be 2 seconds late, and a busy machine needs more time.
    timeoutMs: (checkIntervalSeconds + 2 + 6) * 1000,
  })
  expect(Date.now()).toBeLessThan(Date.parse(product.state.expiresAt!))
  expect(product.hasFeature('export_pdf')).toBe(false)

  using restarted = installedProduct({ ...options, fetch: () => Promise.reject(new Error('offline')) })
  expect(await restarted.activate()).toMatchObject({ status: 'refused', reason: 'revoked' })
})

// These wait for the end of a token, all at the same time.
fullTest.concurrent.each([
  ['suspend', 'suspended'],
  ['retire', 'retired'],
])('after %s the product works to the end of its token, and then is refused', async (verb, reason) => {
  const licence = await givenLicence()
  using product = installedProduct({ licenceKey: licence.key })
  await product.activate()
  expectStatus(await vendor.verb(verb, licence.id), 200)
  const { expiresAt } = await product.refresh()
  expect(product.state).toMatchObject({ status: 'grace', reason, usable: true })
  expect(product.hasFeature('export_pdf')).toBe(true)
  await eventually(() => expect(product.state).toMatchObject({ status: 'refused', reason }), tokenEnd)
  expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(expiresAt!) - 50)
  expect(product.hasFeature('export_pdf')).toBe(false)
  if (verb !== 'suspend') return
  expectStatus(await vendor.verb('reactivate', licence.id), 200)
  expect(await product.refresh()).toMatchObject({ status: 'licensed', reason: null })
})

test.concurrent('the SDK renews the token and reads the revocation list in the background', async () => {
  using product = installedProduct({ licenceKey: (await givenLicence()).key })
  const { expiresAt } = await product.activate()
  await eventually(() => expect(product.state.revocations).toBe('current'))
  await eventually(() => expect(product.state.expiresAt! > expiresAt!).toBe(true), tokenEnd)
  expect(product.state).toMatchObject({ status: 'licensed', revocations: 'current', problem: null })
})

test('after its clock was years ahead, the service licenses a product again, and a stored answer does not', async () => {
  let ahead = 0
  let kept: string | undefined
  let isReplayed = false
  const replaying: typeof fetch = async (url, init) => {
    const headers = { 'content-type': 'application/json' }
    if (isReplayed && kept !== undefined) return new Response(kept, { headers })
    const response = await fetch(url, init)
    if (new Request(url).url.endsWith('/refresh')) kept = await response.clone().text()
    return response
  }
  const clock = () => Date.now() + ahead
  const product = vendor.install({ licenceKey: (await givenLicence()).key, fetch: replaying, clock })
  await product.activate()
  ahead = 4 * 365 * 86_400_000
  expect(product.state).toMatchObject({ status: 'lapsed' })
  ahead = 0
  expect(await product.refresh()).toMatchObject({ status: 'licensed', clockTurnedBack: false })
  ahead = 86_400_000
  isReplayed = true
  expect(await product.refresh()).toMatchObject({ status: 'lapsed' })
  isReplayed = false
  expect(await product.refresh()).toMatchObject({ status: 'licensed' })
})

test('a product of another licensing system exchanges its legacy key and is licensed', async () => {
  const legacyKey = `OLD-${randomUUID()}`
  const items = [{ legacy_key: legacyKey, external_ref: 'customer', plan_id: plan.id }]
  await stack.api.post(`${vendor.app}/licences/import`, { body: { items } })
  const [licence] = await vendor.licences('?external_ref=customer')
  const options = { fingerprint: 'one', store: memoryStore() }
  using product = installedProduct(options)
  const unknown = { status: 'refused', reason: 'unknown_legacy_key' }
  expect(await product.migrateAsync('OLD-none')).toMatchObject(unknown)
  const licensed = { status: 'licensed', licenceId: licence!.id }
  expect(await product.migrateAsync(legacyKey)).toMatchObject(licensed)

  using restarted = installedProduct(options)
  expect(await restarted.activate()).toMatchObject(licensed)
  expect(restarted.licenceKey).toBe(product.licenceKey)
})

test('after a rotation of the application’s key the product keeps working, and accepts tokens of the next key', async () => {
  const { key: licenceKey } = await givenLicence()
  const options = { licenceKey, fingerprint: 'one', store: memoryStore() }
  using product = installedProduct(options)
  await product.activate()
  const published = (count: number) =>
    eventually(async () => expect((await keySet(vendor)).keys).toHaveLength(count))
  await rotateSigningKey(stack, vendor, '--lead-seconds', '0')
  await published(2)
  expect(await product.refresh()).toMatchObject({ status: 'licensed', problem: null })
  expect(await product.check()).toMatchObject({ revocations: 'current', problem: null })

  await rotateSigningKey(stack, vendor, '--leaked')
  await published(1)
  expect(await product.refresh()).toMatchObject({ status: 'licensed', problem: null })
  using restarted = installedProduct(options)
  expect(await restarted.activate()).toMatchObject({ status: 'licensed' })
})

fullTest(
  'while the service is unavailable the product works to the end of its token, and again when the service is available',
  async () => {
    const { key: licenceKey } = await givenLicence()
    const options = { licenceKey, fingerprint: 'one', store: memoryStore() }
    const [gateway] = stack.processes.gateway
    {
      using product = installedProduct(options)
      // The key was rotated a moment ago. Unlike in production, it signs before clients had time to read it.
      await eventually(async () => expect(await product.activate()).toMatchObject({ usable: true }))
    }
    await gateway!.stop()
    using product = installedProduct({ ...options, timeoutMs: 1_000 })
    expect(await product.activate()).toMatchObject({ usable: true, problem: null, reason: null })
    expect([product.hasFeature('export_pdf'), product.limit('max_projects')]).toEqual([true, 10])
    const lapsed = { status: 'lapsed', reason: 'unreachable' }
    await eventually(() => expect(product.state).toMatchObject(lapsed), tokenEnd)
    expect(product.hasFeature('export_pdf')).toBe(false)
    await gateway!.start()
    await eventually(async () => expect(await product.refresh()).toMatchObject({ status: 'licensed' }))
    expect(product.hasFeature('export_pdf')).toBe(true)
  },
)
