import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import type { HttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { awaitTurn } from '@licensing/test-support/turn-of-day'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Envelope } from './delivery.ts'
import { allRows, expectInvalid, expectProblem, givenVendor, isoTime } from './vendor.ts'
import type { Licence, Plan } from './vendor.ts'

let stack: Stack
let receiver: HttpsReceiver

beforeAll(async () => {
  receiver = await startHttpsReceiver()
  stack = await startStack({
    receiver,
    simulator: true,
    environment: { FEE_BPS: '250', FEE_FIXED_MINOR: '5' },
  })
  const connected = await stack.api.put('/v1/processor', {
    body: { processor: 'stripe', connected_account: 'acct_1Vendor' },
  })
  if (connected.status !== 200) throw new Error(JSON.stringify(connected.body))
})
afterAll(async () => {
  await stack[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})

interface Session {
  id: string
  url: string
  status: string
  plan_id: string
  external_ref: string
  amount: number
  currency: string
  fee_minor: number
}

interface Fee {
  kind: string
  amount_minor: number
  currency: string
  charge_ref: string
  application_id: string
  period: string
}

/** What happens at the processor: customers pay, banks dispute. */
async function atProcessor<Result = Record<string, string>>(action: string, body: object): Promise<Result> {
  const response = await fetch(`${stack.simulator!.url}/_sim/${action}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${action}: ${response.status} ${text}`)
  return JSON.parse(text) as Result
}

let prices = 0

/** An application that sells, and hears its events. */
async function givenShop() {
  const vendor = await givenVendor(stack)
  const { api, app } = vendor
  const path = `/shop-${randomUUID()}`
  const endpoint = await api.post(`${app}/webhook-endpoints`, {
    body: { url: receiver.url(path), subscribed_events: '*' },
  })
  expect(endpoint.status).toBe(201)
  const events = () =>
    receiver.requests
      .filter((request) => request.path === path)
      .map(({ body }) => JSON.parse(body.toString()) as Envelope)
      .toSorted((a, b) => a.sequence - b.sequence)
  const types = () => events().map(({ type }) => type)
  const sells = async (fields: Record<string, unknown> = {}, plan?: Plan) => {
    const sold = plan ?? (await vendor.plan())
    const price = {
      price_id: `price_${++prices}`,
      amount: 4_900,
      currency: 'eur',
      mode: 'payment',
      ...fields,
    }
    const set = await api.put(`${app}/plans/${sold.id}/price`, { body: price })
    expect(set.status, JSON.stringify(set.body)).toBe(200)
    return sold
  }
  const order = (planId: string, externalRef: string) =>
    api.post<Session>(`${app}/checkout-sessions`, {
      body: {
        plan_id: planId,
        external_ref: externalRef,
        success_url: 'https://shop.example.com/thanks',
        cancel_url: 'https://shop.example.com/',
      },
    })
  const checkout = async (planId: string, externalRef: string = randomUUID()) => {
    const session = await order(planId, externalRef)
    expect(session.status, JSON.stringify(session.body)).toBe(201)
    return { ...session.body, remote: new URL(session.body.url).pathname.split('/').at(-1)! }
  }
  const session = async (id: string) => (await api.get<Session>(`${app}/checkout-sessions/${id}`)).body
  const reaches = (id: string, status: string) =>
    eventually(async () => expect((await session(id)).status).toBe(status))
  const licencesOf = (externalRef: string) =>
    allRows<Licence>(api, `${app}/licences?external_ref=${encodeURIComponent(externalRef)}`)
  /** Pays, and answers the licence. */
  const buy = async (planId: string, externalRef: string = randomUUID()) => {
    const opened = await checkout(planId, externalRef)
    await atProcessor('pay', { session: opened.remote })
    await reaches(opened.id, 'provisioned')
    return { session: opened, licence: (await licencesOf(externalRef))[0]! }
  }
  const becomes = (licenceId: string, status: string) =>
    eventually(async () => {
      const { body } = await api.get<Licence>(`/v1/licences/${licenceId}`)
      expect(body.status).toBe(status)
      return body
    })
  const hears = (expected: string[]) =>
    eventually(() => expect(types().toSorted()).toEqual(expected.toSorted()))
  const fees = async () =>
    (await allRows<Fee>(api, '/v1/fees')).filter((fee) => fee.application_id === vendor.appId)
  return {
    ...vendor,
    events,
    types,
    sells,
    order,
    checkout,
    session,
    reaches,
    licencesOf,
    buy,
    becomes,
    hears,
    fees,
  }
}

test('the account’s processor is the one that was connected', async () => {
  const { status, body } = await stack.api.get('/v1/processor')
  expect(status).toBe(200)
  expect(body).toMatchObject({ processor: 'stripe', connected_account: 'acct_1Vendor' })
})

test('a price is mapped to a plan, replaced, shown and removed, and belongs to one plan', async () => {
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

test('a checkout is opened on a plan with a price, and on no other', async () => {
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

test('a paid checkout provisions a licence, once, and tells of it and of the money', async () => {
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

test('a customer who holds a licence has its plan changed', async () => {
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

test('a delayed payment provisions when it arrives, and cancels the session when it fails', async () => {
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

test('who paid for a plan that was archived meanwhile is provisioned by a replay', async () => {
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
  // Under one key: a refusal keeps no record, and what was done answers again.
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

test('a full refund revokes, credits the fee within its 7 days, and the events come together', async () => {
  const { api, app, sells, buy, becomes, events, hears, fees } = await givenShop()
  const { session, licence } = await buy((await sells()).id)
  await atProcessor('refund', { charge: session.remote })
  await becomes(licence.id, 'revoked')
  await hears(['licence.created', 'payment.succeeded', 'refund.processed', 'licence.revoked'])
  const [payment] = await allRows<{ charge_ref: string }>(api, `${app}/payments`)
  expect(events().find(({ type }) => type === 'refund.processed')?.data.object).toEqual({
    licence_id: licence.id,
    charge_ref: payment!.charge_ref,
    amount: 4900,
    lane: 'full_refund',
  })
  await eventually(async () => {
    expect((await fees()).map(({ kind, amount_minor: amount }) => [kind, amount])).toEqual([
      ['credit', -128],
      ['charge', 128],
    ])
  })
  expect(await allRows<Record<string, unknown>>(api, `${app}/refunds`)).toEqual([
    expect.objectContaining({
      id: expect.stringMatching(/^rfd_/),
      licence_id: licence.id,
      charge_ref: payment!.charge_ref,
      amount: 4900,
      currency: 'eur',
      lane: 'full_refund',
      status: 'succeeded',
    }),
  ])
})

test('partial refunds downgrade once, and revoke when they add up to the whole', async () => {
  const { sells, buy, becomes, events, hears, define, plan, api, activate } = await givenShop()
  await define('seats', 'limit', '1')
  const sold = await sells({}, await plan({ entitlements: [{ key: 'seats', value: '9' }] }))
  const { session, licence } = await buy(sold.id)
  await atProcessor('refund', { charge: session.remote, amount: 1_000 })
  await becomes(licence.id, 'downgraded')
  const grant = await activate(licence)
  expect(grant.status).toBe(201)
  const claims = JSON.parse(Buffer.from(grant.body.token.split('.')[1]!, 'base64url').toString()) as Record<
    string,
    unknown
  >
  expect(claims).toMatchObject({ status: 'downgraded', entitlements: { seats: '1' } })
  expect((await api.get(`/v1/licences/${licence.id}`)).body['entitlements']).toEqual([
    { key: 'seats', kind: 'limit', value: '9' },
  ])
  await atProcessor('refund', { charge: session.remote, amount: 1_000 })
  await hears([
    'licence.created',
    'payment.succeeded',
    'refund.processed',
    'licence.downgraded',
    'refund.processed',
  ])
  await atProcessor('refund', { charge: session.remote })
  await becomes(licence.id, 'revoked')
  await hears([
    'licence.created',
    'payment.succeeded',
    'refund.processed',
    'licence.downgraded',
    'refund.processed',
    'refund.processed',
    'licence.revoked',
  ])
  const refunds = events().filter(({ type }) => type === 'refund.processed')
  expect(refunds.map(({ data }) => [data.object['amount'], data.object['lane']])).toEqual([
    [1_000, 'partial_refund'],
    [1_000, 'partial_refund'],
    [2_900, 'full_refund'],
  ])
  expect(events().find(({ type }) => type === 'licence.downgraded')?.data.object).toEqual({
    licence_id: licence.id,
    status: 'downgraded',
  })
})

test('a chargeback revokes from its opening and earns no credit; an inquiry suspends until it is closed', async () => {
  const { sells, buy, becomes, events, hears, fees, types } = await givenShop()
  const { id: planId } = await sells()
  const disputed = await buy(planId, 'ann')
  await atProcessor('dispute', { charge: disputed.session.remote, kind: 'chargeback' })
  await becomes(disputed.licence.id, 'revoked')
  await hears(['licence.created', 'payment.succeeded', 'refund.processed', 'licence.revoked'])
  expect(events().find(({ type }) => type === 'refund.processed')?.data.object).toMatchObject({
    licence_id: disputed.licence.id,
    amount: 4900,
    lane: 'chargeback',
  })
  const asked = await buy(planId, 'bob')
  const inquiry = await atProcessor('dispute', { charge: asked.session.remote, kind: 'inquiry' })
  expect(await becomes(asked.licence.id, 'suspended')).toMatchObject({ status_reason: 'dispute_inquiry' })
  await atProcessor('close-dispute', { dispute: inquiry['id'], outcome: 'warning_closed' })
  await becomes(asked.licence.id, 'active')
  await eventually(() => expect(types().slice(-2)).toEqual(['licence.suspended', 'licence.reactivated']))
  expect(types().filter((type) => type === 'refund.processed')).toHaveLength(1)
  expect((await fees()).map(({ kind }) => kind)).toEqual(['charge', 'charge'])
})

test('a subscription is renewed in silence, suspended after 3 failures in a row, resumed by a payment, and ended', async () => {
  const { api, sells, checkout, reaches, licencesOf, becomes, hears, events, fees } = await givenShop()
  const sold = await sells({ mode: 'subscription', amount: 1_000 })
  const opened = await checkout(sold.id, 'sub')
  const paid = await atProcessor<{ subscription: string }>('pay', { session: opened.remote })
  await reaches(opened.id, 'provisioned')
  const { subscription } = paid
  const [licence] = await licencesOf('sub')
  const firstEnd = Date.parse(licence!.expires_on!)
  expect(firstEnd).toBeGreaterThan(Date.now() + 25 * 24 * 3_600_000)
  await atProcessor('renew', { subscription })
  await eventually(async () => {
    const { body } = await api.get<Licence>(`/v1/licences/${licence!.id}`)
    expect(Date.parse(body.expires_on!)).toBeGreaterThan(firstEnd)
  })
  await hears(['licence.created', 'payment.succeeded'])
  await eventually(async () =>
    expect((await fees()).map(({ amount_minor: amount }) => amount)).toEqual([30, 30]),
  )
  for (let attempt = 1; attempt <= 3; attempt++) await atProcessor('fail-invoice', { subscription })
  expect(await becomes(licence!.id, 'suspended')).toMatchObject({ status_reason: 'payment_failed' })
  await atProcessor('renew', { subscription })
  await becomes(licence!.id, 'active')
  await atProcessor('cancel', { subscription, when: 'now' })
  await becomes(licence!.id, 'expired')
  await hears([
    'licence.created',
    'payment.succeeded',
    'licence.suspended',
    'licence.reactivated',
    'licence.expired',
  ])
  expect(events().find(({ type }) => type === 'licence.suspended')?.data.object).toEqual({
    licence_id: licence!.id,
    status: 'suspended',
    reason: 'payment_failed',
  })
})

test('a sale made elsewhere provisions once, costs no fee, and is repeated safely', async () => {
  const { api, app, sells, plan, hears, fees, licencesOf, events } = await givenShop()
  const sold = await sells({ price_id: 'price_elsewhere' })
  const sale = {
    sale_id: 'order-1',
    external_ref: 'ann',
    plan_id: sold.id,
    amount: 4900,
    currency: 'usd',
    occurred_at: '2026-11-01T10:00:00Z',
    expires_on: '2099-01-01T00:00:00Z',
  }
  const send = (body: object) => api.post<{ id: string; licence_id: string }>(`${app}/sale-events`, { body })
  const first = await send(sale)
  expect(first.status, JSON.stringify(first.body)).toBe(201)
  expect(first.body).toEqual({
    id: expect.stringMatching(/^sale_/),
    sale_id: 'order-1',
    licence_id: expect.stringMatching(/^lic_/),
    status: 'provisioned',
  })
  const again = await send(sale)
  expect(again.status).toBe(200)
  expect(again.body).toEqual(first.body)
  expectProblem(await send({ ...sale, amount: 1 }), 409, 'idempotency_mismatch')
  expect(await licencesOf('ann')).toEqual([
    expect.objectContaining({ id: first.body.licence_id, expires_on: '2099-01-01T00:00:00.000Z' }),
  ])
  const byPrice = await send({
    ...sale,
    sale_id: 'order-2',
    external_ref: 'bob',
    plan_id: undefined,
    price_id: 'price_elsewhere',
  })
  expect(byPrice.status).toBe(201)
  expect(await licencesOf('bob')).toEqual([expect.objectContaining({ plan_id: sold.id })])

  const retired = await plan()
  await api.post(`${app}/plans/${retired.id}/archive`)
  const failing = { ...sale, sale_id: 'order-3', external_ref: 'cyd', plan_id: retired.id }
  expect((await send(failing)).body).toMatchObject({ status: 'provision_failed', licence_id: null })
  await hears(['licence.created', 'licence.created', 'payment.provision_failed'])
  expect(events().find(({ type }) => type === 'payment.provision_failed')?.data.object).toMatchObject({
    session_id: expect.stringMatching(/^(sale_|order-3)/),
    plan_id: retired.id,
    amount: 4900,
    currency: 'usd',
  })
  await api.post(`${app}/plans/${retired.id}/restore`)
  expect((await send(failing)).body).toMatchObject({ status: 'provisioned' })
  expect(await licencesOf('cyd')).toHaveLength(1)
  expect(await fees()).toEqual([])

  expectInvalid(await send({ ...sale, sale_id: 'x', plan_id: 'pln_01k9zj3v8qe5ktw2m4x6r7n8ab' }), '/plan_id')
  expectInvalid(await send({ ...sale, sale_id: '' }), '/sale_id')
  expectInvalid(await send({ ...sale, sale_id: 'x', occurred_at: 'yesterday' }), '/occurred_at')
})

test('fifty reports of one sale at once make one licence', async () => {
  const { api, app, sells, licencesOf } = await givenShop()
  const sold = await sells()
  const body = {
    sale_id: 's',
    external_ref: 'ann',
    plan_id: sold.id,
    amount: 1,
    currency: 'eur',
    occurred_at: '2026-11-01T10:00:00Z',
  }
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => api.post<{ licence_id: string }>(`${app}/sale-events`, { body })),
  )
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(49)
  expect(await licencesOf('ann')).toHaveLength(1)
})

test('events of the processor that are forged are refused', async () => {
  for (const headers of [
    {},
    { 'stripe-signature': 't=1,v1=00' },
    { 'stripe-signature': 'nonsense' },
  ] as Record<string, string>[]) {
    const answer = await stack.api.post('/v1/processors/stripe/events', {
      key: null,
      headers,
      body: { id: 'evt_1', type: 'charge.refunded' },
    })
    expectProblem(answer, 400, 'bad_request')
  }
  expectProblem(await stack.api.post('/v1/processors/stripe/events', { key: null }), 400, 'bad_request')
})

test('the spend cap pauses new checkouts when it is reached, is reported once, and lifts when raised', async () => {
  await awaitTurn('day')
  const { api, sells, checkout, order, reaches, events } = await givenShop()
  const { id: planId } = await sells()
  const cap = async () => (await api.get<Record<string, unknown>>('/v1/spend-cap')).body
  const before = await cap()
  expect(before).toMatchObject({
    period: new Date().toISOString().slice(0, 7),
    cap_minor: null,
    paused: false,
    reached_at: null,
  })
  expectInvalid(await api.put('/v1/spend-cap', { body: { cap_minor: -1, currency: 'eur' } }), '/cap_minor')
  expectInvalid(await api.put('/v1/spend-cap', { body: { cap_minor: 1 } }), '/currency')
  const spent = (
    await api.put<{ spent_minor: number }>('/v1/spend-cap', {
      body: { cap_minor: 10_000_000, currency: 'eur' },
    })
  ).body.spent_minor
  expect(spent).toBeGreaterThanOrEqual(0)
  const set = await api.put('/v1/spend-cap', { body: { cap_minor: spent + 128, currency: 'eur' } })
  expect(set.body).toMatchObject({
    cap_minor: spent + 128,
    spent_minor: spent,
    currency: 'eur',
    paused: false,
  })
  const [first, second] = [await checkout(planId), await checkout(planId)]
  await atProcessor('pay', { session: first.remote })
  await reaches(first.id, 'provisioned')
  await eventually(async () =>
    expect(await cap()).toMatchObject({
      paused: true,
      spent_minor: spent + 128,
      reached_at: expect.stringMatching(isoTime),
    }),
  )
  expectProblem(await order(planId, 'x'), 409, 'spend_cap_reached')
  await atProcessor('pay', { session: second.remote })
  await reaches(second.id, 'provisioned')
  expect(
    (await api.put('/v1/spend-cap', { body: { cap_minor: spent + 10_000, currency: 'eur' } })).body,
  ).toMatchObject({ paused: false })
  expect((await order(planId, 'x')).status).toBe(201)
  await api.put('/v1/spend-cap', { body: { cap_minor: 1, currency: 'eur' } })
  expect(await cap()).toMatchObject({ paused: true })
  expectProblem(await order(planId, 'y'), 409, 'spend_cap_reached')
  expect((await api.put('/v1/spend-cap', { body: { cap_minor: null } })).body).toMatchObject({
    cap_minor: null,
    paused: false,
  })
  const reported = () => events().filter(({ type }) => type === 'spend_cap.reached')
  await eventually(() => expect(reported()).toHaveLength(1))
  expect(reported()[0]?.data.object).toMatchObject({
    period: before['period'],
    cap_minor: spent + 128,
    spent_minor: spent + 128,
  })
})
