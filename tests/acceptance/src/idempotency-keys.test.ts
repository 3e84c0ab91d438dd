import type { ApiAnswer } from '@licensing/test-support/api-client'
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { givenEndpoint } from './delivery.ts'
import { givenMarket, givenShop } from './shop.ts'
import { allRows, expectProblem, expectStatus, givenVendor, installed } from './vendor.ts'

const market = await givenMarket()
const { stack, receiver } = market

interface Post {
  path: string
  body?: Record<string, unknown>
  /** A field that only the first answer contains. */
  secret?: string
}

/** A valid call of each POST that creates or triggers something. */
async function everyPost(): Promise<Record<string, Post>> {
  const shop = await givenShop(market)
  const { api, app, plan, issue, verb } = shop
  const sold = await shop.sells()
  const [suspended, reactivated, revoked, retired, other] = await Promise.all(
    [1, 2, 3, 4, 5].map(() => issue(sold.id)),
  )
  await verb('suspend', reactivated!.id)
  const hook = await givenEndpoint(shop, receiver)
  const archived = await plan()
  expectStatus(await api.post(`${app}/plans/${archived.id}/archive`), 200)
  const customer = { plan_id: sold.id, external_ref: 'x' }
  const urls = { success_url: 'https://example.com/ok', cancel_url: 'https://example.com/no' }
  const occurred_at = new Date().toISOString()
  return {
    'an application': { path: '/v1/apps', body: { name: 'Keys' } },
    'an API key': { path: '/v1/api-keys', body: { name: 'Keys', scopes: ['read'] }, secret: 'key' },
    'a definition': { path: `${app}/entitlement-defs`, body: { key: 'keys', kind: 'feature' } },
    'a plan': { path: `${app}/plans`, body: { name: 'Keys', code: 'keys' } },
    'an archive': { path: `${app}/plans/${(await plan()).id}/archive` },
    'a restore': { path: `${app}/plans/${archived.id}/restore` },
    'an import': {
      path: `${app}/licences/import`,
      body: { items: [{ legacy_key: randomUUID(), ...customer }] },
    },
    'a suspension': { path: `/v1/licences/${suspended!.id}/suspend` },
    'a reactivation': { path: `/v1/licences/${reactivated!.id}/reactivate` },
    'a revocation': { path: `/v1/licences/${revoked!.id}/revoke` },
    'a retirement': { path: `/v1/licences/${retired!.id}/retire` },
    'an offline activation': {
      path: `${app}/offline-activations`,
      body: { licence_key: other!.key, fingerprint: 'machine', days: 30, ...installed },
    },
    'an endpoint': {
      path: `${app}/webhook-endpoints`,
      body: { url: receiver.url(`/${randomUUID()}`), subscribed_events: 'licence.retired' },
      secret: 'secret',
    },
    'a new secret': { path: `${hook.at}/rotate-secret`, secret: 'secret' },
    'a test event': { path: `${hook.at}/test` },
    'a checkout': { path: `${app}/checkout-sessions`, body: { ...customer, ...urls } },
    'an authorization at the processor': { path: '/v1/processor/authorizations' },
    'a sale': {
      path: `${app}/sale-events`,
      body: { ...customer, sale_id: randomUUID(), amount: 100, currency: 'eur', occurred_at },
    },
  }
}

const send = ({ path, body }: Post, key: string) =>
  stack.api.post(path, { headers: { 'idempotency-key': key }, ...(body && { body }) })

const isReplay = ({ headers }: ApiAnswer<unknown>) => headers.get('idempotent-replayed') === 'true'

test('a repeat with the same key gets the first answer without its secret, and changes nothing', async () => {
  const posts = await everyPost()
  for (const [what, post] of Object.entries(posts)) {
    const key = randomUUID()
    const first = await send(post, key)
    expect(first.status, `${what}: ${JSON.stringify(first.body)}`).toBeLessThan(300)
    expect(isReplay(first), what).toBe(false)
    if (post.secret) expect(first.body[post.secret], what).toEqual(expect.any(String))
    const again = await send(post, key)
    expect(isReplay(again), what).toBe(true)
    const body = post.secret ? { ...first.body, [post.secret]: null } : first.body
    expect({ status: again.status, body: again.body }, what).toEqual({ status: first.status, body })
  }
})

test('another body with the same key is refused and changes nothing', async () => {
  const { api, app } = await givenVendor(stack)
  const key = randomUUID()
  const path = `${app}/plans`
  expect((await send({ path, body: { name: 'One', code: 'one' } }, key)).status).toBe(201)
  const other = await send({ path, body: { name: 'Two', code: 'two' } }, key)
  expectProblem(other, 409, 'idempotency_mismatch')
  expect(await allRows(api, path)).toHaveLength(1)
})

test('of concurrent calls with the same key one makes the change, and the others get its answer', async () => {
  const { api, app } = await givenVendor(stack)
  const path = `${app}/plans`
  const key = randomUUID()
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => send({ path, body: { name: 'Once', code: 'once' } }, key)),
  )
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]))
  expect(new Set(answers.map(({ body }) => body['id'])).size).toBe(1)
  expect(answers.filter((answer) => !isReplay(answer))).toHaveLength(1)
  expect(await allRows(api, path)).toHaveLength(1)
})

test('a refused call, a dry run and a call of another path do not use the key up', async () => {
  const { app, plan } = await givenVendor(stack)
  const key = randomUUID()
  const path = `${app}/entitlement-defs`
  expectProblem(await send({ path, body: { key: 'No!', kind: 'feature' } }, key), 422, 'validation_failed')
  expect(isReplay(await send({ path, body: { key: 'yes', kind: 'feature' } }, key))).toBe(false)
  const elsewhere = await send({ path: `${app}/plans`, body: { name: 'Yes', code: 'yes' } }, key)
  expect([elsewhere.status, isReplay(elsewhere)]).toEqual([201, false])

  const items = [{ legacy_key: randomUUID(), external_ref: 'x', plan_id: (await plan()).id }]
  const imports = { path: `${app}/licences/import`, body: { items } }
  const dryKey = randomUUID()
  const dry = await send({ ...imports, body: { items, dry_run: true } }, dryKey)
  expect(dry.body).toMatchObject({ summary: { created: 1 } })
  const real = await send(imports, dryKey)
  expect([real.status, isReplay(real)]).toEqual([200, false])
})

test.each(['', 'x'.repeat(256)])('an invalid key is refused: %#', async (key) => {
  const answer = await send({ path: '/v1/apps', body: { name: 'None' } }, key)
  expectProblem(answer, 400, 'bad_request')
})
