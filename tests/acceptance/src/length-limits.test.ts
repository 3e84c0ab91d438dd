import type { ApiAnswer } from '@licensing/test-support/api-client'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { bodySchemaOf, operationsOf } from './document.ts'
import type { ApiDocument, Operation, Schema } from './document.ts'
import { givenMarket, givenShop } from './shop.ts'
import { expectInvalid, expectNotFound, expectProblem, expectStatus, installed } from './vendor.ts'

/** A text field of a body that has a length limit in the OpenAPI document. */
interface Limit {
  operation: Operation
  field: string
  schema: Schema
}

// Read from the file, because the tests are defined before a gateway runs.
const file = new URL('../../../gateway/openapi.json', import.meta.url)
const document = JSON.parse(readFileSync(file, 'utf8')) as ApiDocument
const limits = operationsOf(document).flatMap((operation) =>
  limitsIn(operation, bodySchemaOf(operation), []).map(
    (limit) => [`${operation.operationId} ${limit.field}`, limit] as const,
  ),
)

const market = await givenMarket()
const { stack, receiver } = market
const vendor = await givenShop(market)
const { api, app } = vendor
const plan = await vendor.sells()
const changedPlan = await vendor.plan()
const trialPlan = await vendor.plan({ trial_days: 14 })
const licence = await vendor.issue(plan.id)
const { body: activation } = await vendor.activate(licence)
const changedEndpoint = api.post<{ id: string }>(`${app}/webhook-endpoints`, {
  body: { url: receiver.url('/changed'), subscribed_events: '*' },
})

function limitsIn(operation: Operation, schema: Schema | undefined, path: string[]): Limit[] {
  if (!schema) return []
  const own = schema.maxLength === undefined ? [] : [{ operation, field: path.join('/'), schema }]
  return [
    ...own,
    ...(schema.anyOf ?? []).flatMap((branch) => limitsIn(operation, branch, path)),
    ...Object.entries(schema.properties ?? {}).flatMap(([name, property]) =>
      limitsIn(operation, property, [...path, name]),
    ),
    ...(schema.items ? limitsIn(operation, schema.items, [...path, '0']) : []),
  ]
}

const shop = 'https://shop.example.com/'
const newKey = () => `k_${randomUUID().replaceAll('-', '_')}`
const setPrice = async (fields: object) => {
  const price = { price_id: randomUUID(), amount: 100, currency: 'eur', mode: 'payment', ...fields }
  return api.put(`${app}/plans/${(await vendor.plan()).id}/price`, { body: price })
}

const past = '2026-01-01T00:00:00Z'
/** Reports about a sale that is not known. */
const report = (what: string, body: object) =>
  api.post(`${app}/sale-events/${randomUUID()}/${what}`, { body })

/** A valid request of each operation with a limit or a time. The given fields are added to it or replaced in it. */
const accepted: Record<string, (fields: Record<string, string>) => Promise<ApiAnswer<unknown>>> = {
  createEntitlementDefinition: (fields) =>
    api.post(`${app}/entitlement-defs`, { body: { key: newKey(), kind: 'feature', ...fields } }),
  updateEntitlementDefinition: async (fields) => {
    const { id } = await vendor.define(newKey(), 'feature')
    return api.patch(`${app}/entitlement-defs/${id}`, { body: fields })
  },
  createPlan: (fields) => api.post(`${app}/plans`, { body: { name: 'Pro', code: randomUUID(), ...fields } }),
  updatePlan: (fields) => api.patch(`${app}/plans/${changedPlan.id}`, { body: fields }),
  setPrice,
  issueLicence: (fields) =>
    api.post(`${app}/licences`, {
      headers: { 'idempotency-key': randomUUID() },
      body: { external_ref: 'c', plan_id: plan.id, ...fields },
    }),
  updateLicence: async (fields) => vendor.patch((await vendor.issue(plan.id)).id, fields),
  createCheckoutSession: (fields) => vendor.order(plan.id, 'c', fields),
  recordSaleEvent: async (fields) => {
    const { price_id: priceId } = fields
    if (priceId === undefined) return vendor.sell({ plan_id: plan.id, ...fields })
    await setPrice({ price_id: priceId })
    return vendor.sell(fields)
  },
  reportSaleRefund: (fields) =>
    report('refunds', { refund_id: randomUUID(), amount: 1, occurred_at: past, ...fields }),
  reportSaleRenewal: (fields) =>
    report('renewals', {
      renewal_id: randomUUID(),
      amount: 1,
      currency: 'eur',
      occurred_at: past,
      expires_on: past,
      ...fields,
    }),
  reportSaleFailure: (fields) =>
    report('failures', { failure_id: randomUUID(), occurred_at: past, ...fields }),
  reportSaleCancellation: (fields) => report('cancellation', { occurred_at: past, ...fields }),
  createWebhookEndpoint: (fields) =>
    api.post(`${app}/webhook-endpoints`, {
      body: { url: receiver.url('/new'), subscribed_events: '*', ...fields },
    }),
  updateWebhookEndpoint: async (fields) => {
    const { body } = await changedEndpoint
    return api.patch(`${app}/webhook-endpoints/${body.id}`, { body: fields })
  },
  createMember: (fields) => api.post('/v1/members', { body: { role: 'viewer', ...fields } }),
  updateAccount: (fields) => api.patch('/v1/account', { body: fields }),
  createApplication: (fields) => api.post('/v1/apps', { body: fields }),
  updateApplication: ({ 'customer_page/support_url': supportUrl, ...fields }) => {
    const page = supportUrl === undefined ? {} : { customer_page: { support_url: supportUrl } }
    return api.patch(app, { body: { ...fields, ...page } })
  },
  createCustomerSession: (fields) =>
    api.post(`/v1/licences/${licence.id}/customer-sessions`, { body: fields }),
  createApiKey: (fields) => api.post('/v1/api-keys', { body: { scopes: ['read'], ...fields } }),
  setOverride: async (fields) => {
    const { key } = await vendor.define(newKey(), 'feature')
    return api.put(`/v1/licences/${licence.id}/overrides/${key}`, { body: { value: 'true', ...fields } })
  },
  activate: (fields) => vendor.activate(licence, fields),
  startTrial: (fields) => {
    const body = { plan_code: trialPlan.code, fingerprint: randomUUID(), ...installed, ...fields }
    return api.post(`${app}/trials`, { key: null, body })
  },
  activateOffline: (fields) => {
    const body = { licence_key: licence.key, days: 30, fingerprint: randomUUID(), ...installed, ...fields }
    return api.post(`${app}/offline-activations`, { body })
  },
  refreshActivation: (fields) => vendor.refresh(activation, fields),
  recordCallHome: (fields) => vendor.callHome(activation, fields),
}

/** A valid text of this length for a field, with characters outside the basic plane unless a rule forbids them. */
function textOf(field: string, count: number): string {
  switch (field) {
    case 'key':
      return `k${randomUUID().replaceAll('-', '_')}${'a'.repeat(count)}`.slice(0, count)
    case 'host':
      return 'abcdefghi.'.repeat(count).slice(0, count - 1) + 'z'
    case 'alert_email':
    case 'email':
      return `${'a'.repeat(Math.max(1, count - 12))}@example.com`.slice(-count)
    case 'url':
      return receiver.url('/').padEnd(count, 'a')
    case 'return_url':
    case 'customer_page/support_url':
      return shop.padEnd(count, 'a')
    case 'success_url':
    case 'cancel_url':
      return shop + '😀'.repeat(count - shop.length)
    default:
      return '😀'.repeat(count)
  }
}

test('this file calls every operation that has a limit or a time in its body', () => {
  const timed = times
    .filter(({ field }) => !field.startsWith('?'))
    .map(({ operation }) => operation.operationId)
  const named = new Set([...limits.map(([, { operation }]) => operation.operationId), ...timed])
  named.delete('recoverWebhookEndpoint')
  expect(limits.length).toBeGreaterThan(20)
  expect([...named].toSorted()).toEqual(Object.keys(accepted).toSorted())
})

test.each(limits)('%s has the documented length limit, in characters', async (_, limit) => {
  const { operation, field, schema } = limit
  const send = (text: string) => accepted[operation.operationId]!({ [field]: text })
  const longest = textOf(field, schema.maxLength!)
  expect(Array.from(longest)).toHaveLength(schema.maxLength!)
  const answer = await send(longest)
  expect(Math.floor(answer.status / 100), JSON.stringify(answer.body)).toBe(2)
  const body = (answer.body ?? {}) as Record<string, unknown>
  if (field in body) expect(body[field]).toBe(longest)
  // The extra character must match the pattern, so that only the length is wrong.
  const extra = schema.pattern === undefined ? '😀' : 'a'
  expectInvalid(await send(longest + extra), `/${field}`)
  if ((schema.minLength ?? 0) > 0) expectInvalid(await send(''), `/${field}`)
  for (const unstorable of ['a\0', '\ud83d', 'a\ude00']) expectInvalid(await send(unstorable), `/${field}`)
})

/** Each timestamp in a request: the field of a body, or `?` and the name of a query parameter. */
const times = operationsOf(document).flatMap((operation) => [
  ...timesIn(bodySchemaOf(operation), []).map((field) => ({ operation, field })),
  ...(operation.parameters ?? [])
    .filter(({ schema }) => schema.format === 'date-time')
    .map(({ name }) => ({ operation, field: `?${name}` })),
])

function timesIn(schema: Schema | undefined, path: string[]): string[] {
  if (!schema) return []
  return [
    ...(schema.format === 'date-time' ? [path.join('/')] : []),
    ...(schema.anyOf ?? []).flatMap((branch) => timesIn(branch, path)),
    ...Object.entries(schema.properties ?? {}).flatMap(([name, each]) => timesIn(each, [...path, name])),
  ]
}

test.each(times.map((time) => [`${time.operation.operationId} ${time.field}`, time] as const))(
  '%s: a time after the year 9999 is 422, and its last millisecond causes no internal error',
  async (_, { operation, field }) => {
    const send = async (text: string) => {
      if (field.startsWith('?')) {
        const path = operation.path.replace('{app_id}', stack.appId)
        return api.get(`${path}?${field.slice(1)}=${encodeURIComponent(text)}`)
      }
      if (operation.operationId !== 'recoverWebhookEndpoint') {
        return accepted[operation.operationId]!({ [field]: text })
      }
      const { body } = await accepted['createWebhookEndpoint']!({ url: receiver.url() })
      const { id } = body as { id: string }
      const since = new Date(0).toISOString()
      return api.post(`${app}/webhook-endpoints/${id}/recover`, { body: { since, [field]: text } })
    }
    const beyond = ['9999-12-31T23:59:59.999-00:01', '10000-01-01T00:00:00Z', '+010000-01-01T00:00:00.000Z']
    for (const text of [...beyond, '0000-12-31T23:59:59Z', '0001-01-01T00:00:00+00:01']) {
      expectProblem(await send(text), 422, 'validation_failed')
    }
    const last = await send('9999-12-31T23:59:59.999Z')
    // A sale may be at most a day in the future, and a recovery must begin before it ends.
    const isTooLate = field === 'occurred_at' || (field === 'since' && operation.method === 'POST')
    if (isTooLate) expectInvalid(last, `/${field}`)
    else expect(Math.floor(last.status / 100), JSON.stringify(last.body)).toBe(2)
    expect((await send('0001-01-01T00:00:00Z')).status).toBeLessThan(500)
  },
)

test('an Idempotency-Key has at most 255 characters', async () => {
  const issue = (key: string) =>
    api.post(`${app}/licences`, {
      headers: { 'idempotency-key': key },
      body: { external_ref: 'c', plan_id: plan.id },
    })
  for (const character of ['k', '😀']) {
    // A header consists of bytes, so its characters are encoded here.
    const key = (count: number) => Buffer.from(character.repeat(count)).toString('latin1')
    expectStatus(await issue(key(255)), 201)
    expect((await issue(key(255))).headers.get('idempotent-replayed')).toBe('true')
    expectProblem(await issue(key(256)), 400, 'idempotency_key_required')
  }
})

test('a paid checkout is provisioned with any characters in its reference', async () => {
  const reference = '😀'.repeat(255)
  const { licence: bought } = await vendor.buy(plan.id, reference)
  expect(bought.external_ref).toBe(reference)
})

test('imported texts have at most 255 characters, and a legacy key of that length can be exchanged', async () => {
  const longest = '😀'.repeat(255)
  const item = { legacy_key: randomUUID(), external_ref: 'c', plan_id: plan.id }
  const items = [
    { ...item, legacy_key: longest, external_ref: longest },
    { ...item, legacy_key: `${longest}a` },
    { ...item, external_ref: `${longest}a` },
  ]
  const imported = await api.post(`${app}/licences/import`, { body: { items } })
  const failed = { result: 'failed', error: { code: 'validation_failed' } }
  expect(imported.body).toMatchObject({ items: [{ result: 'created', error: null }, failed, failed] })
  const exchange = (key: string) => api.post(`${app}/migrate`, { key: null, body: { legacy_key: key } })
  expectStatus(await exchange(longest), 200)
  expectNotFound(await exchange(`${longest}a`))
})
