import { LicenceClient, memoryStore } from '@licensing/sdk'
import type { LicenceClientOptions } from '@licensing/sdk'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { givenVendor } from './vendor.ts'
import type { Licence, Vendor } from './vendor.ts'

const tokenLifeSeconds = 15
const checkIntervalSeconds = 1

let stack: Stack
let vendor: Vendor
beforeAll(async () => {
  stack = await startStack({
    simulator: true,
    environment: {
      TOKEN_LIFE_SECONDS: String(tokenLifeSeconds),
      CHECK_INTERVAL_SECONDS: String(checkIntervalSeconds),
      PRODUCT_RATE_PER_MINUTE: '100000',
    },
  })
  vendor = await givenVendor(stack)
  await vendor.define('export_pdf', 'feature')
  await vendor.define('sso', 'feature')
  await vendor.define('max_projects', 'limit', '3')
})
afterAll(() => stack[Symbol.asyncDispose]())

const givenPlan = () =>
  vendor.plan({
    entitlements: [
      { key: 'export_pdf', value: 'true' },
      { key: 'max_projects', value: '10' },
    ],
  })

async function givenLicence(fields: Record<string, unknown> = {}): Promise<Licence> {
  return vendor.issue((await givenPlan()).id, fields)
}

const installedProduct = (options: Partial<LicenceClientOptions> = {}) =>
  new LicenceClient({
    baseUrl: stack.gatewayUrl,
    appId: vendor.appId,
    rootKey: vendor.rootKey,
    fingerprint: randomUUID(),
    host: 'build-7.example.com',
    productVersion: '4.2.0',
    ...options,
  })

test('an activated product knows its features and limits, and the vendor sees its host', async () => {
  const licence = await givenLicence({ restrictions: { max_seats: 5, max_activations: 1 } })
  using product = installedProduct({ licenceKey: licence.key.toLowerCase(), fingerprint: 'machine' })
  expect(product.hasFeature('export_pdf')).toBe(false)
  expect(product.limit('max_projects')).toBe(0)
  expect(await product.activate()).toMatchObject({
    status: 'licensed',
    usable: true,
    reason: null,
    licenceId: licence.id,
    planId: licence.plan_id,
    licenceStatus: 'active',
    seats: 5,
    problem: null,
  })
  expect(product.hasFeature('export_pdf')).toBe(true)
  expect(product.hasFeature('sso')).toBe(false)
  expect(product.hasFeature('there_is_no_such_key')).toBe(false)
  expect(product.limit('max_projects')).toBe(10)

  using second = installedProduct({ licenceKey: licence.key })
  expect(await second.activate()).toMatchObject({ status: 'refused', reason: 'limit_reached' })
  const { body } = await stack.api.get<{ activations: unknown[] }>(`/v1/licences/${licence.id}`)
  expect(body.activations).toMatchObject([
    { fingerprint: 'machine', host: 'build-7.example.com', product_version: '4.2.0' },
  ])
  expect(await product.deactivate()).toMatchObject({ status: 'unlicensed', reason: 'deactivated' })
  expect(await second.activate()).toMatchObject({ status: 'licensed' })
})

test('the SDK renews the token and reads the revocation list in the background', async () => {
  const licence = await givenLicence()
  using product = installedProduct({ licenceKey: licence.key })
  const { expiresAt } = await product.activate()
  await eventually(() => expect(product.state.revocations).toBe('current'))
  await eventually(
    () => expect(Date.parse(product.state.expiresAt!)).toBeGreaterThan(Date.parse(expiresAt!)),
    {
      timeoutMs: tokenLifeSeconds * 1000,
    },
  )
  expect(product.state).toMatchObject({ status: 'licensed', revocations: 'current', problem: null })
})

test('a revoked licence is refused within the check interval because of the list, although its token is valid', async () => {
  const licence = await givenLicence()
  const store = memoryStore()
  const withoutRefresh: typeof fetch = (url, init) =>
    new Request(url).url.endsWith('/refresh') ? Promise.reject(new Error('no refresh')) : fetch(url, init)
  const options = { licenceKey: licence.key, fingerprint: 'one', store, fetch: withoutRefresh }
  using product = installedProduct(options)
  await product.activate()
  await eventually(() => expect(product.state.revocations).toBe('current'))
  expect((await vendor.verb('revoke', licence.id)).status).toBe(200)
  await eventually(() => expect(product.state).toMatchObject({ status: 'refused', reason: 'revoked' }), {
    // The list may be 2 seconds late, and a busy machine needs more time.
    timeoutMs: (checkIntervalSeconds + 2 + 6) * 1000,
  })
  expect(Date.now()).toBeLessThan(Date.parse(product.state.expiresAt!))
  expect(product.hasFeature('export_pdf')).toBe(false)

  using restarted = installedProduct({ ...options, fetch: () => Promise.reject(new Error('offline')) })
  expect(await restarted.activate()).toMatchObject({ status: 'refused', reason: 'revoked' })
})

test.each([
  ['suspend', 'suspended'],
  ['retire', 'retired'],
])(
  'after %s the product works to the end of its token, and then is refused',
  async (verb, reason) => {
    const licence = await givenLicence()
    using product = installedProduct({ licenceKey: licence.key })
    await product.activate()
    expect((await vendor.verb(verb, licence.id)).status).toBe(200)
    const { expiresAt } = await product.refresh()
    expect(product.state).toMatchObject({ status: 'grace', reason, usable: true })
    expect(product.hasFeature('export_pdf')).toBe(true)
    await eventually(() => expect(product.state).toMatchObject({ status: 'refused', reason }), {
      timeoutMs: tokenLifeSeconds * 1000 + 2_000,
    })
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(expiresAt!) - 50)
    expect(product.hasFeature('export_pdf')).toBe(false)
    if (verb !== 'suspend') return
    expect((await vendor.verb('reactivate', licence.id)).status).toBe(200)
    expect(await product.refresh()).toMatchObject({ status: 'licensed', reason: null })
  },
  60_000,
)

test('after its clock was years ahead, the service licenses a product again, and a stored answer does not', async () => {
  const licence = await givenLicence()
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
  const options = {
    licenceKey: licence.key,
    store: memoryStore(),
    background: false,
    fetch: replaying,
    clock,
  }
  const product = installedProduct(options)
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

test('a partly refunded licence works with the defaults of its definitions', async () => {
  const { api } = stack
  const plan = await givenPlan()
  await api.put('/v1/processor', { body: { processor: 'stripe', connected_account: 'acct_1' } })
  const price = { price_id: `price_${plan.id}`, amount: 4900, currency: 'usd', mode: 'payment' }
  expect((await api.put(`${vendor.app}/plans/${plan.id}/price`, { body: price })).status).toBe(200)
  const session = await api.post<{ url: string }>(`${vendor.app}/checkout-sessions`, {
    body: {
      plan_id: plan.id,
      external_ref: 'buyer',
      success_url: 'https://shop.example.com/thanks',
      cancel_url: 'https://shop.example.com/cart',
    },
  })
  expect(session.status).toBe(201)
  const simulate = async (action: string, body: Record<string, unknown>) => {
    const headers = { 'content-type': 'application/json' }
    const url = `${stack.simulator!.url}/_sim/${action}`
    const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
    expect(answer.status).toBeLessThan(300)
  }
  await simulate('pay', { session: session.body.url.split('/').at(-1) })
  const payment = await eventually(async () => {
    const page = await api.get<{ data: { licence_id: string | null; charge_ref: string }[] }>(
      `${vendor.app}/payments`,
    )
    // The payment is listed before its licence exists.
    expect(page.body.data).toMatchObject([{ licence_id: expect.any(String) as string }])
    return page.body.data[0]!
  })
  const { body: licence } = await api.get<Licence>(`/v1/licences/${payment.licence_id}`)
  using product = installedProduct({ licenceKey: licence.key })
  expect(await product.activate()).toMatchObject({ licenceStatus: 'active' })
  expect(product.limit('max_projects')).toBe(10)

  await simulate('refund', { charge: payment.charge_ref, amount: 1000 })
  await eventually(async () => {
    expect(await product.refresh()).toMatchObject({ status: 'licensed', licenceStatus: 'downgraded' })
  })
  expect(product.hasFeature('export_pdf')).toBe(false)
  expect(product.limit('max_projects')).toBe(3)
})

test('a product of another licensing system exchanges its legacy key and is licensed', async () => {
  const plan = await givenPlan()
  const legacyKey = `OLD-${randomUUID()}`
  const imported = await stack.api.post<{ items: { licence_id: string }[] }>(
    `${vendor.app}/licences/import`,
    {
      body: { items: [{ legacy_key: legacyKey, external_ref: 'customer', plan_id: plan.id }] },
    },
  )
  const store = memoryStore()
  using product = installedProduct({ fingerprint: 'one', store })
  expect(await product.migrateAsync('OLD-none')).toMatchObject({
    status: 'refused',
    reason: 'unknown_legacy_key',
  })
  expect(await product.migrateAsync(legacyKey)).toMatchObject({
    status: 'licensed',
    licenceId: imported.body.items[0]!.licence_id,
  })
  expect(product.hasFeature('export_pdf')).toBe(true)

  using restarted = installedProduct({ fingerprint: 'one', store })
  expect(await restarted.activate()).toMatchObject({ status: 'licensed' })
  expect(restarted.licenceKey).toBe(product.licenceKey)
})

test('after a rotation of the application’s key the product keeps working, and accepts tokens of the next key', async () => {
  const licence = await givenLicence()
  const store = memoryStore()
  const options = { licenceKey: licence.key, fingerprint: 'one', store }
  using product = installedProduct(options)
  await product.activate()
  const { ENCRYPTION_KEY } = stack.processes.licensing[0]!.environment
  const rotate = new URL('../../../services/licensing/src/admin/rotate-signing-keys.ts', import.meta.url)
  const rotateNow = async (...args: string[]) => {
    await promisify(execFile)(process.execPath, [rotate.pathname, '--app', vendor.appId, ...args], {
      env: { DATABASE_URL: stack.databaseUrls.licensing, ENCRYPTION_KEY },
    })
  }
  const keysPublished = async () =>
    (await stack.api.get<{ keys: { kid: string }[] }>(`${vendor.app}/jwks.json`)).body.keys
  await rotateNow('--lead-seconds', '0')
  await eventually(async () => expect(await keysPublished()).toHaveLength(2))
  expect(await product.refresh()).toMatchObject({ status: 'licensed', problem: null })
  expect(await product.check()).toMatchObject({ revocations: 'current', problem: null })

  await rotateNow('--leaked')
  await eventually(async () => expect(await keysPublished()).toHaveLength(1))
  expect(await product.refresh()).toMatchObject({ status: 'licensed', problem: null })
  using restarted = installedProduct(options)
  expect(await restarted.activate()).toMatchObject({ status: 'licensed' })
})

test('while the service is unavailable the product works to the end of its token, and again when the service is available', async () => {
  const licence = await givenLicence()
  const store = memoryStore()
  const options = { licenceKey: licence.key, fingerprint: 'one', store }
  const [gateway] = stack.processes.gateway
  {
    using product = installedProduct(options)
    // The key was rotated a moment ago. Unlike in production, it signs before clients had time to read it.
    await eventually(async () => expect(await product.activate()).toMatchObject({ usable: true }))
  }
  await gateway!.stop()
  using product = installedProduct({ ...options, timeoutMs: 1_000 })
  expect(await product.activate()).toMatchObject({ usable: true, problem: null, reason: null })
  expect(product.hasFeature('export_pdf')).toBe(true)
  expect(product.limit('max_projects')).toBe(10)
  await eventually(() => expect(product.state).toMatchObject({ status: 'lapsed', reason: 'unreachable' }), {
    timeoutMs: tokenLifeSeconds * 1000 + 3_000,
  })
  expect(product.hasFeature('export_pdf')).toBe(false)
  await gateway!.start()
  await eventually(async () => expect(await product.refresh()).toMatchObject({ status: 'licensed' }))
  expect(product.hasFeature('export_pdf')).toBe(true)
})
