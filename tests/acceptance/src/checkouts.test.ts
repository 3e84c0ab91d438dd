import { awaitTurn } from '@licensing/test-support/turn-of-day'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startMarket } from './shop.ts'
import type { Market, Session } from './shop.ts'
import { allRows, expectInvalid, expectProblem, isoTime } from './vendor.ts'

let market: Market
beforeAll(async () => {
  market = await startMarket()
})
afterAll(() => market[Symbol.asyncDispose]())

const givenShop: Market['givenShop'] = () => market.givenShop()
const atProcessor: Market['atProcessor'] = (action, body) => market.atProcessor(action, body)

test('the account shows the connected processor', async () => {
  const { status, body } = await market.stack.api.get('/v1/processor')
  expect(status).toBe(200)
  expect(body).toMatchObject({ processor: 'stripe', connected_account: market.connectedAccount })
})

test('a price is mapped to a plan, replaced, shown and removed, and can belong to only one plan', async () => {
  const { api, app, plan } = await givenShop()
  const [one, two] = [await plan(), await plan()]
  const at = `${app}/plans/${one.id}/price`
  expectProblem(await api.get(at), 404, 'not_found')
  const price = { price_id: 'price_gold', amount: 4900, currency: 'eur', mode: 'payment', period_months: 12 }
  expect((await api.put(at, { body: price })).body).toMatchObject(price)
  expect((await api.get(at)).body).toMatchObject(price)
  expectProblem(await api.put(`${app}/plans/${two.id}/price`, { body: price }), 409, 'already_exists')
  expect((await api.put(at, { body: { ...price, price_id: 'price_new', amount: 5900 } })).body).toMatchObject(
    { price_id: 'price_new', amount: 5900 },
  )
  expect((await api.put(`${app}/plans/${two.id}/price`, { body: price })).status).toBe(200)
  expect((await api.delete(at)).status).toBe(204)
  expectProblem(await api.get(at), 404, 'not_found')
  const refuse = async (fields: object, pointer: string) =>
    expectInvalid(await api.put(at, { body: { ...price, ...fields } }), pointer)
  await refuse({ amount: -1 }, '/amount')
  await refuse({ amount: 1.5 }, '/amount')
  await refuse({ currency: 'EUR' }, '/currency')
  await refuse({ mode: 'gift' }, '/mode')
  await refuse({ period_months: 0 }, '/period_months')
  await refuse({ price_id: '' }, '/price_id')
  await refuse({ tax: 1 }, '/tax')
  expectProblem(
    await api.put(`${app}/plans/pln_01k9zj3v8qe5ktw2m4x6r7n8ab/price`, { body: price }),
    404,
    'not_found',
  )
})

test('a checkout can be opened only for a plan with a price', async () => {
  const { api, app, sells, order, plan, session } = await givenShop()
  const sold = await sells()
  const { status, body } = await order(sold.id, 'ann')
  expect(status).toBe(201)
  expect(body).toMatchObject({
    id: expect.stringMatching(/^cs_[0-9a-z]{26}$/),
    url: expect.stringMatching(/^https?:/),
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
  expectInvalid(await order('pln_01k9zj3v8qe5ktw2m4x6r7n8ab', 'ann'), '/plan_id')
  await api.post(`${app}/plans/${sold.id}/archive`)
  expectProblem(await order(sold.id, 'ann'), 409, 'plan_archived')
  expectProblem(await api.get(`${app}/checkout-sessions/cs_01k9zj3v8qe5ktw2m4x6r7n8ab`), 404, 'not_found')
  expectInvalid(
    await api.post(`${app}/checkout-sessions`, { body: {} }),
    '/plan_id',
    '/external_ref',
    '/success_url',
    '/cancel_url',
  )
})

test('a paid checkout provisions a licence once, with events for the licence and the payment', async () => {
  await awaitTurn('day')
  const { api, app, appId, sells, buy, events, hears, fees, licencesOf } = await givenShop()
  const sold = await sells({ period_months: 12 })
  const { session, licence } = await buy(sold.id, 'ann')
  expect(licence).toMatchObject({ status: 'active', plan_id: sold.id, external_ref: 'ann' })
  const months = (Date.parse(licence.expires_on!) - Date.now()) / (30.44 * 24 * 3_600_000)
  expect(Math.round(months)).toBe(12)
  await hears(['licence.created', 'payment.succeeded'])
  const of = (type: string) => events().find((event) => event.type === type)?.data.object
  expect(of('licence.created')).toEqual({ licence_id: licence.id, plan_id: sold.id, status: 'active' })
  expect(of('payment.succeeded')).toEqual({ licence_id: licence.id, amount: 4900, currency: 'eur' })
  const payments = await allRows<Record<string, unknown>>(api, `${app}/payments`)
  expect(payments).toEqual([
    expect.objectContaining({
      id: expect.stringMatching(/^pay_/),
      licence_id: licence.id,
      session_id: session.id,
      sale_id: null,
      plan_id: sold.id,
      external_ref: 'ann',
      amount: 4900,
      currency: 'eur',
      charge_ref: expect.any(String),
      fee_minor: 128,
      occurred_at: expect.stringMatching(isoTime),
    }),
  ])
  expect(await fees()).toEqual([
    expect.objectContaining({
      kind: 'charge',
      amount_minor: 128,
      currency: 'eur',
      charge_ref: payments[0]!['charge_ref'],
      application_id: appId,
      period: new Date().toISOString().slice(0, 7),
    }),
  ])
  expectProblem(await api.post(`${app}/checkout-sessions/${session.id}/replay`), 409, 'conflict')
  expect(await licencesOf('ann')).toHaveLength(1)
  const [created] = await allRows<Record<string, string>>(api, `/v1/licences/${licence.id}/history`)
  expect(created).toMatchObject({ type: 'created', to: 'active', actor: 'processor' })
})

test('if the customer has a licence, a checkout changes its plan', async () => {
  const { sells, buy, define, plan, events, hears, api, licencesOf } = await givenShop()
  await define('seats', 'limit', '1')
  const silver = await sells()
  const gold = await sells({ amount: 9900 }, await plan({ entitlements: [{ key: 'seats', value: '9' }] }))
  const { licence } = await buy(silver.id, 'ann')
  await buy(gold.id, 'ann')
  expect(await licencesOf('ann')).toEqual([
    expect.objectContaining({ id: licence.id, key: licence.key, plan_id: gold.id, status: 'active' }),
  ])
  expect((await api.get(`/v1/licences/${licence.id}`)).body['entitlements']).toEqual([
    { key: 'seats', kind: 'limit', value: '9' },
  ])
  await hears(['licence.created', 'payment.succeeded', 'licence.plan_changed', 'payment.succeeded'])
  expect(events().find(({ type }) => type === 'licence.plan_changed')).toMatchObject({
    data: { object: { licence_id: licence.id, plan_id: gold.id, status: 'active' } },
    previous: { plan_id: silver.id },
  })
})

test('a delayed payment provisions when it succeeds, and cancels the session when it fails', async () => {
  const { sells, checkout, reaches, session, licencesOf } = await givenShop()
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
  const { api, app, sells, checkout, reaches, events, hears, licencesOf } = await givenShop()
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
    reason: expect.any(String),
  })
  // All with one idempotency key: a refused call is not recorded, and a repeat of the successful call gets its answer.
  const keyed = { headers: { 'idempotency-key': `replay of ${id}` } }
  expectProblem(await api.post(`${app}/checkout-sessions/${id}/replay`, keyed), 409, 'plan_archived')
  await api.post(`${app}/plans/${sold.id}/restore`)
  const replayed = await api.post<Session>(`${app}/checkout-sessions/${id}/replay`, keyed)
  expect(replayed.status).toBe(200)
  expect(replayed.body).toMatchObject({ id, status: 'provisioned' })
  const again = await api.post<Session>(`${app}/checkout-sessions/${id}/replay`, keyed)
  expect({ status: again.status, body: again.body }).toEqual({ status: 200, body: replayed.body })
  expect(again.headers.get('idempotent-replayed')).toBe('true')
  expectProblem(await api.post(`${app}/checkout-sessions/${id}/replay`), 409, 'conflict')
  expect(await licencesOf('late')).toHaveLength(1)
  await hears(['payment.provision_failed', 'licence.created', 'payment.succeeded'])
})

test('forged events of the processor are refused', async () => {
  for (const headers of [
    {},
    { 'stripe-signature': 't=1,v1=00' },
    { 'stripe-signature': 'nonsense' },
  ] as Record<string, string>[]) {
    const answer = await market.stack.api.post('/v1/processors/stripe/events', {
      key: null,
      headers,
      body: { id: 'evt_1', type: 'charge.refunded' },
    })
    expectProblem(answer, 400, 'bad_request')
  }
  expectProblem(
    await market.stack.api.post('/v1/processors/stripe/events', { key: null }),
    400,
    'bad_request',
  )
})
