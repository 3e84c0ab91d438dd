import { awaitTurn } from '@licensing/test-support/turn-of-day'
import { expect, test } from 'vitest'
import { givenMarket, givenShop } from './shop.ts'
import type { Session } from './shop.ts'
import { expectInvalid, expectNotFound, expectProblem, expectStatus, isoTime, unknownId } from './vendor.ts'

const market = await givenMarket()
const { atProcessor } = market

test('the account shows the connected processor', async () => {
  const connected = { processor: 'stripe', connected_account: market.connectedAccount }
  expect(await market.stack.api.get('/v1/processor')).toMatchObject({ status: 200, body: connected })
})

test('a price is mapped to a plan, replaced, shown and removed, and can belong to only one plan', async () => {
  const { api, app, plan } = await givenShop(market)
  const pathOf = (id: string) => `${app}/plans/${id}/price`
  const [at, other] = [pathOf((await plan()).id), pathOf((await plan()).id)]
  expectNotFound(await api.get(at))
  const price = { price_id: 'price_gold', amount: 4900, currency: 'eur', mode: 'payment', period_months: 12 }
  expect((await api.put(at, { body: price })).body).toMatchObject(price)
  expect((await api.get(at)).body).toMatchObject({ ...price, updates_months: null })
  expectProblem(await api.put(other, { body: price }), 409, 'already_exists')
  const next = { ...price, price_id: 'price_new', amount: 5900 }
  expect((await api.put(at, { body: next })).body).toMatchObject(next)
  expectStatus(await api.put(other, { body: price }), 200)
  expectStatus(await api.delete(at), 204)
  expectNotFound(await api.get(at))
  for (const [field, value] of [
    ['amount', 1.5],
    ['currency', 'EUR'],
    ['mode', 'gift'],
    ['period_months', 0],
    ['price_id', ''],
    ['tax', 1],
  ] as const) {
    expectInvalid(await api.put(at, { body: { ...price, [field]: value } }), `/${field}`)
  }
  expectNotFound(await api.put(pathOf(unknownId('pln')), { body: price }))
})

test('a checkout can be opened only for a plan with a price', async () => {
  const { api, app, sells, order, plan, session } = await givenShop(market)
  const sold = await sells()
  const { status, body } = await order(sold.id, 'ann')
  expect(status).toBe(201)
  expect(body).toMatchObject({
    id: expect.stringMatching(/^cs_[0-9a-z]{26}$/) as string,
    url: expect.stringMatching(/^https?:/) as string,
    status: 'open',
    plan_id: sold.id,
    external_ref: 'ann',
    amount: 4900,
    currency: 'eur',
    // 2.5 % of 4900 is 122.5, half up, and 5.
    fee_minor: 128,
  })
  expect(await session(body.id)).toEqual(body)
  expectInvalid(await order((await plan()).id, 'ann'), '/plan_id')
  expectInvalid(await order(unknownId('pln'), 'ann'), '/plan_id')
  await api.post(`${app}/plans/${sold.id}/archive`)
  expectProblem(await order(sold.id, 'ann'), 409, 'plan_archived')
  expectNotFound(await api.get(`${app}/checkout-sessions/${unknownId('cs')}`))
  const empty = await api.post(`${app}/checkout-sessions`, { body: {} })
  expectInvalid(empty, '/plan_id', '/external_ref', '/success_url', '/cancel_url')
})

test('a paid checkout provisions a licence once, with events for the licence and the payment', async () => {
  await awaitTurn('day')
  const { api, app, appId, sells, buy, events, hears, fees, licencesOf, payments, history } =
    await givenShop(market)
  const sold = await sells({ period_months: 12 })
  const { session, licence } = await buy(sold.id, 'ann')
  expect(licence).toMatchObject({ status: 'active', plan_id: sold.id, external_ref: 'ann' })
  const months = (Date.parse(licence.expires_on!) - Date.now()) / (30.44 * 24 * 3_600_000)
  expect(Math.round(months)).toBe(12)
  await hears(['licence.created', 'payment.succeeded'])
  const of = (type: string) => events().find((event) => event.type === type)?.data.object
  expect(of('licence.created')).toEqual({ licence_id: licence.id, plan_id: sold.id, status: 'active' })
  expect(of('payment.succeeded')).toEqual({ licence_id: licence.id, amount: 4900, currency: 'eur' })
  const rows = await payments()
  expect(rows).toMatchObject([
    {
      id: expect.stringMatching(/^pay_/) as string,
      licence_id: licence.id,
      session_id: session.id,
      sale_id: null,
      plan_id: sold.id,
      external_ref: 'ann',
      amount: 4900,
      currency: 'eur',
      charge_ref: expect.any(String) as string,
      fee_minor: 128,
      occurred_at: expect.stringMatching(isoTime) as string,
    },
  ])
  const { charge_ref } = rows[0]!
  const period = new Date().toISOString().slice(0, 7)
  const fee = {
    kind: 'charge',
    amount_minor: 128,
    currency: 'eur',
    charge_ref,
    application_id: appId,
    period,
  }
  expect(await fees()).toMatchObject([fee])
  expectProblem(await api.post(`${app}/checkout-sessions/${session.id}/replay`), 409, 'conflict')
  expect(await licencesOf('ann')).toHaveLength(1)
  const created = { type: 'created', to: 'active', actor: 'processor' }
  expect(await history(licence.id)).toMatchObject([created])
})

test('if the customer has a licence, a checkout changes its plan', async () => {
  const { sells, buy, define, plan, events, hears, detail, licencesOf } = await givenShop(market)
  await define('seats', 'limit', '1')
  const silver = await sells()
  const gold = await sells({ amount: 9900 }, await plan({ entitlements: [{ key: 'seats', value: '9' }] }))
  const { licence } = await buy(silver.id, 'ann')
  await buy(gold.id, 'ann')
  const { id, key } = licence
  expect(await licencesOf('ann')).toMatchObject([{ id, key, plan_id: gold.id, status: 'active' }])
  expect((await detail(id)).entitlements).toEqual([{ key: 'seats', kind: 'limit', value: '9' }])
  await hears(['licence.created', 'payment.succeeded', 'licence.plan_changed', 'payment.succeeded'])
  expect(events().find(({ type }) => type === 'licence.plan_changed')).toMatchObject({
    data: { object: { licence_id: id, plan_id: gold.id, status: 'active' } },
    previous: { plan_id: silver.id },
  })
})

test('a delayed payment provisions when it succeeds, and cancels the session when it fails', async () => {
  const { sells, checkout, reaches, session, licencesOf } = await givenShop(market)
  const sold = await sells()
  const [paid, failed] = [await checkout(sold.id, 'slow'), await checkout(sold.id, 'broke')]
  for (const { remote } of [paid, failed]) await atProcessor('pay', { session: remote, method: 'delayed' })
  expect((await session(paid.id)).status).toBe('open')
  await atProcessor('pay', { session: paid.remote })
  await atProcessor('fail', { session: failed.remote })
  await reaches(paid.id, 'provisioned')
  await reaches(failed.id, 'canceled')
  expect(await licencesOf('slow')).toHaveLength(1)
  expect(await licencesOf('broke')).toEqual([])
  const expired = await checkout(sold.id, 'gone')
  await atProcessor('expire', { session: expired.remote })
  await reaches(expired.id, 'expired')
})

test('if the plan was archived before the payment, a replay provisions the licence later', async () => {
  const { api, app, sells, checkout, reaches, events, hears, licencesOf } = await givenShop(market)
  const sold = await sells()
  const { id, remote } = await checkout(sold.id, 'late')
  await api.post(`${app}/plans/${sold.id}/archive`)
  await atProcessor('pay', { session: remote })
  await reaches(id, 'provision_failed')
  await hears(['payment.provision_failed'])
  expect(events()[0]?.data.object).toEqual({
    session_id: id,
    plan_id: sold.id,
    amount: 4900,
    currency: 'eur',
    reason: expect.any(String) as string,
  })
  // All with one idempotency key: a refused call is not recorded, and a repeat of the successful call gets its answer.
  const headers = { 'idempotency-key': `replay of ${id}` }
  const replay = (request = {}) => api.post<Session>(`${app}/checkout-sessions/${id}/replay`, request)
  expectProblem(await replay({ headers }), 409, 'plan_archived')
  await api.post(`${app}/plans/${sold.id}/restore`)
  const replayed = await replay({ headers })
  expect(replayed).toMatchObject({ status: 200, body: { id, status: 'provisioned' } })
  const again = await replay({ headers })
  expect(again).toMatchObject({ status: 200, body: replayed.body })
  expect(again.headers.get('idempotent-replayed')).toBe('true')
  expectProblem(await replay(), 409, 'conflict')
  expect(await licencesOf('late')).toHaveLength(1)
  await hears(['payment.provision_failed', 'licence.created', 'payment.succeeded'])
})

test('forged events of the processor are refused', async () => {
  const { api } = market.stack
  const path = '/v1/processors/stripe/events'
  const body = { id: 'evt_1', type: 'charge.refunded' }
  const forged = `t=${Math.floor(Date.now() / 1000)},v1=${'0'.repeat(64)}`
  for (const signature of [forged, 'nonsense', '']) {
    const headers = { 'stripe-signature': signature }
    expectProblem(await api.post(path, { key: null, headers, body }), 400, 'bad_request')
  }
  expectProblem(await api.post(path, { key: null, body }), 400, 'bad_request')
  expectProblem(await api.post(path, { key: null }), 400, 'bad_request')
})
