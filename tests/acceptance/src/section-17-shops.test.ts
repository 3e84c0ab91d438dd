import { eventually } from '@licensing/test-support/poll'
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { givenMarket, givenShop } from './shop.ts'
import { allRows, dayMs, expectInvalid, expectProblem, expectStatus } from './vendor.ts'

const market = await givenMarket()
const { api, app, sells, buy, order, plan, sell, becomes, detail, events, payments, fees, history, settled } =
  await givenSettling()

/** A shop whose earlier events have all arrived when `settled` returns. */
async function givenSettling() {
  const shop = await givenShop(market)
  const settled = async () => {
    const { id } = await shop.issue((await shop.plan()).id)
    await shop.verb('revoke', id)
    await eventually(() => expect(shop.heard('licence.revoked', id)).toHaveLength(1))
  }
  return { ...shop, settled }
}

const started = Date.now() - 200 * dayMs
/** A time some days after the sale. */
const day = (days: number) => new Date(started + days * dayMs).toISOString()
const ahead = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString()

interface Reported {
  id: string | null
  sale_id: string
  licence_id: string | null
  status: string | null
}

const at = (saleId: string) => `${app}/sale-events/${encodeURIComponent(saleId)}`
const report = (saleId: string, what: string, body: object) =>
  api.post<Reported>(`${at(saleId)}/${what}`, { body })
const refund = (saleId: string, on: number, amount: number, fields: object = {}) =>
  report(saleId, 'refunds', { refund_id: randomUUID(), amount, occurred_at: day(on), ...fields })
const renew = (saleId: string, on: number, until: number, fields: object = {}) =>
  report(saleId, 'renewals', {
    renewal_id: randomUUID(),
    amount: 100,
    currency: 'eur',
    occurred_at: day(on),
    expires_on: day(until),
    ...fields,
  })
const fail = (saleId: string, on: number, failure_id: string = randomUUID()) =>
  report(saleId, 'failures', { failure_id, occurred_at: day(on) })
const cancel = (saleId: string, on: number, fields: object = {}) =>
  report(saleId, 'cancellation', { occurred_at: day(on), ...fields })
const factsOf = async (saleId: string) =>
  (await api.get<{ facts: { kind: string; id: string | null }[] }>(at(saleId))).body.facts
const refundsOf = (licence: string) =>
  allRows<Record<string, unknown>>(api, `${app}/refunds?licence=${licence}`)

const { id: planId } = await plan()

/** Reports a sale of 100. */
async function sold(fields: object = {}) {
  const { body } = await sell({
    external_ref: randomUUID(),
    plan_id: planId,
    occurred_at: day(0),
    expires_on: day(400),
    ...fields,
  })
  return { sale: body.sale_id, licence: body.licence_id }
}

const heardOf = (licence: string) =>
  events()
    .filter(({ data }) => data.object['licence_id'] === licence)
    .map(({ type, data }) => [type, data.object['lane'], data.object['amount']].filter(Boolean).join(' '))
    .toSorted()
const lanesOf = (licence: string) => heardOf(licence).filter((event) => event.startsWith('refund'))

test('each fact is answered 201 the first time, 200 again, and 409 with another body; an absent kind is refund', async () => {
  const { sale, licence } = await sold()
  const body = { refund_id: 'r-1', amount: 40, occurred_at: day(3) }
  const first = await report(sale, 'refunds', body)
  expect([first.status, first.body]).toEqual([
    201,
    { id: 'r-1', sale_id: sale, licence_id: licence, status: 'downgraded' },
  ])
  expect(await report(sale, 'refunds', { ...body, kind: 'refund' })).toMatchObject({ status: 200 })
  expect(await report(sale, 'refunds', body)).toMatchObject({ status: 200, body: first.body })
  expectProblem(await report(sale, 'refunds', { ...body, amount: 41 }), 409, 'idempotency_mismatch')
  expectProblem(await report(sale, 'refunds', { ...body, kind: 'chargeback' }), 409, 'idempotency_mismatch')
  // An id is unique within its path only.
  expect((await fail(sale, 4, 'r-1')).status).toBe(201)
  expect((await renew(sale, 5, 500, { renewal_id: 'r-1' })).status).toBe(201)
  const cancelled = await cancel(sale, 6, { ends_on: day(300) })
  expect([cancelled.status, cancelled.body.id]).toEqual([201, null])
  expect((await cancel(sale, 6, { ends_on: day(300) })).status).toBe(200)
  expectProblem(await cancel(sale, 6), 409, 'idempotency_mismatch')
  // Fifty at once are one.
  const answers = await Promise.all(Array.from({ length: 50 }, () => fail(sale, 5, 'many')))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(49)
})

test('a fact before its sale waits with 202 and takes effect when the sale is provisioned', async () => {
  const sale = `früh/${randomUUID()}?`
  const retired = await plan()
  await api.post(`${app}/plans/${retired.id}/archive`)
  expect(await refund(sale, 2, 30, { refund_id: 'r' })).toMatchObject({
    status: 202,
    body: { id: 'r', sale_id: sale, licence_id: null, status: null },
  })
  expect((await refund(sale, 2, 30, { refund_id: 'r' })).status).toBe(202)
  expectProblem(await api.get(at(sale)), 404, 'not_found')
  const fields = { sale_id: sale, plan_id: retired.id, external_ref: randomUUID(), occurred_at: day(0) }
  expect((await sell(fields)).body).toMatchObject({ status: 'provision_failed' })
  // Before the sale's time is the sale's time.
  expect((await renew(sale, -5, 380, { renewal_id: 'n' })).status).toBe(202)
  expect((await api.get(at(sale))).body).toMatchObject({
    sale_id: sale,
    status: 'provision_failed',
    reason: 'plan_archived',
    facts: [
      { kind: 'renewal', id: 'n', amount: 100, occurred_at: day(-5) },
      { kind: 'refund', id: 'r', amount: 30 },
    ],
  })
  await api.post(`${app}/plans/${retired.id}/restore`)
  const { licence_id } = (await sell(fields)).body
  await eventually(async () => expect(await refundsOf(licence_id)).toHaveLength(1))
  expect((await refund(sale, 2, 30, { refund_id: 'r' })).status).toBe(200)
  // The refund is of the sale's own payment, which the renewal replaced: it changes no licence.
  expect((await detail(licence_id)).status).toBe('active')
  expect((await payments(`?licence=${licence_id}`)).length).toBe(2)
})

test('at most 100 facts wait for a sale', async () => {
  const sale = randomUUID()
  const facts = Array.from({ length: 105 }, (_, on) => fail(sale, on, `f${on}`))
  const statuses = (await Promise.all(facts)).map(({ status }) => status)
  expect([202, 409].map((wanted) => statuses.filter((each) => each === wanted).length)).toEqual([100, 5])
  expectProblem(await fail(sale, 1, 'another'), 409, 'quota_exceeded')
})

test('the sale’s id has 1 to 255 characters after decoding', async () => {
  const longest = '😀'.repeat(255)
  expect((await fail(longest, 1)).status).toBe(202)
  for (const saleId of [`${longest}a`, 'a\0']) {
    expectProblem(await fail(saleId, 1), 404, 'not_found')
    expectProblem(await api.post(`${at(saleId)}/refunds`, { body: {} }), 404, 'not_found')
    expectProblem(await api.get(at(saleId)), 404, 'not_found')
  }
  expectInvalid(await fail('s', 1, 'a'.repeat(256)), '/failure_id')
  expectInvalid(await refund('s', 1, 1, { occurred_at: ahead(24.5) }), '/occurred_at')
  expectInvalid(await refund('s', 1, 1, { kind: 'inquiry' }), '/kind')
  expectInvalid(await refund('s', 1, 0), '/amount')
})

test('partial refunds downgrade, and revoke within 5 seconds when they add up to the payment', async () => {
  const { sale, licence } = await sold()
  expectInvalid(await refund(sale, 1, 101), '/amount')
  expect((await refund(sale, 1, 60)).body.status).toBe('downgraded')
  expectInvalid(await refund(sale, 2, 41), '/amount')
  // A refund leaves as much to charge back as before.
  expectInvalid(await refund(sale, 2, 101, { kind: 'chargeback' }), '/amount')
  expect((await refund(sale, 2, 40)).status).toBe(201)
  await becomes(licence, 'revoked')
  await eventually(() =>
    expect(heardOf(licence)).toEqual([
      'licence.created',
      'licence.downgraded',
      'licence.revoked',
      'refund.processed full_refund 40',
      'refund.processed partial_refund 60',
    ]),
  )
  const processed = events().filter(
    ({ type, data }) => type === 'refund.processed' && data.object['licence_id'] === licence,
  )
  expect(processed.map(({ data }) => data.object['charge_ref'])).toEqual([sale, sale])
  expect(await refundsOf(licence)).toMatchObject([
    { amount: 40, charge_ref: sale, lane: 'full_refund', status: 'succeeded', currency: 'eur' },
    { amount: 60, charge_ref: sale, lane: 'partial_refund' },
  ])
  expectInvalid(await refund(sale, 3, 1), '/amount')
})

test('a chargeback revokes, and does not count in the sum of the refunds', async () => {
  const { sale, licence } = await sold()
  expect((await refund(sale, 1, 100, { kind: 'chargeback', refund_id: 'c' })).status).toBe(201)
  await becomes(licence, 'revoked')
  expect((await refund(sale, 2, 100)).status).toBe(201)
  await eventually(() =>
    expect(lanesOf(licence)).toEqual(['refund.processed chargeback 100', 'refund.processed full_refund 100']),
  )
  expect(heardOf(licence).filter((event) => event === 'licence.revoked')).toHaveLength(1)
})

test('what a refund before its payment exceeds does not count', async () => {
  const sale = randomUUID()
  await refund(sale, 1, 150, { refund_id: 'b', kind: 'chargeback' })
  await refund(sale, 2, 70, { refund_id: 'c' })
  await refund(sale, 1, 80, { refund_id: 'a' })
  const { licence } = await sold({ sale_id: sale })
  await becomes(licence, 'revoked')
  await eventually(() =>
    expect(lanesOf(licence)).toEqual([
      'refund.processed chargeback 100',
      'refund.processed full_refund 20',
      'refund.processed partial_refund 80',
    ]),
  )
  expect(await factsOf(sale)).toMatchObject([
    { id: 'a', kind: 'refund', amount: 80 },
    { id: 'b', kind: 'chargeback', amount: 150 },
    { id: 'c', kind: 'refund', amount: 70 },
  ])
})

test('a renewal moves the end without grace, is a payment of its own, and costs no fee', async () => {
  const { sale, licence } = await sold({ expires_on: day(210) })
  const renewed = await renew(sale, 30, 250, { renewal_id: 'n-1', currency: 'usd', amount: 90 })
  expect([renewed.status, renewed.body]).toEqual([
    201,
    { id: 'n-1', sale_id: sale, licence_id: licence, status: 'active' },
  ])
  expect((await detail(licence)).expires_on).toBe(day(250))
  // Never earlier, and it may be past.
  await renew(sale, 40, 20)
  expect((await detail(licence)).expires_on).toBe(day(250))
  const rows = await payments(`?licence=${licence}`)
  expect(
    rows.map((row) => [row.charge_ref, Reflect.get(row, 'sale_id'), Reflect.get(row, 'currency')]),
  ).toEqual([
    [expect.any(String), sale, 'eur'],
    ['n-1', sale, 'usd'],
    [null, sale, 'eur'],
  ])
  expect(await payments('?charge_ref=n-1')).toMatchObject([
    { amount: 90, fee_minor: 0, occurred_at: day(30) },
  ])
  expect(await fees()).toEqual([])
  await settled()
  expect(heardOf(licence)).toEqual(['licence.created'])
  // A sale without an end stays without one.
  const forever = await sold({ expires_on: undefined })
  await renew(forever.sale, 30, 250)
  expect((await detail(forever.licence)).expires_on).toBeNull()
})

test('a renewal of an expired licence reactivates it', async () => {
  const { sale, licence } = await sold({ expires_on: day(100) })
  await becomes(licence, 'expired')
  expect((await renew(sale, 90, 300)).body.status).toBe('active')
  await eventually(() => expect(heardOf(licence)).toContain('licence.reactivated'))
})

test('a refund concerns the payment of its renewal, also before that is known', async () => {
  const { sale, licence } = await sold()
  const early = await refund(sale, 32, 50, { refund_id: 'e', renewal_id: 'n' })
  expect([early.status, early.body.licence_id, early.body.status]).toEqual([202, null, null])
  expect(await factsOf(sale)).toMatchObject([{ kind: 'refund', id: 'e', amount: 50 }])
  expect((await detail(licence)).status).toBe('active')
  expect((await renew(sale, 31, 410, { renewal_id: 'n', amount: 200 })).body.status).toBe('downgraded')
  expect((await refund(sale, 32, 50, { refund_id: 'e', renewal_id: 'n' })).status).toBe(200)
  expect(await refundsOf(licence)).toMatchObject([{ charge_ref: 'n', amount: 50, lane: 'partial_refund' }])
  expectInvalid(await refund(sale, 33, 151, { renewal_id: 'n' }), '/amount')
  // An earlier cycle: the event alone.
  expect((await renew(sale, 61, 440, { renewal_id: 'o' })).body.status).toBe('active')
  expect((await refund(sale, 62, 150, { renewal_id: 'n' })).body.status).toBe('active')
  expect((await refund(sale, 62, 10)).body.status).toBe('active')
  await eventually(() => expect(lanesOf(licence)).toHaveLength(3))
  await refund(sale, 63, 100, { renewal_id: 'o' })
  await becomes(licence, 'revoked')
})

test('three failures in a row suspend, and a renewal ends the row', async () => {
  const { sale, licence } = await sold()
  await fail(sale, 1)
  expect((await fail(sale, 2)).body.status).toBe('active')
  await renew(sale, 3, 400, { renewal_id: '1' })
  // It does not matter whether a renewal has the same id.
  await fail(sale, 4, '1')
  expect((await fail(sale, 5)).body.status).toBe('active')
  expect((await fail(sale, 6)).body.status).toBe('suspended')
  expect((await detail(licence)).status_reason).toBe('payment_failed')
  expect((await renew(sale, 7, 430)).body.status).toBe('active')
  await eventually(() =>
    expect(heardOf(licence)).toEqual(['licence.created', 'licence.reactivated', 'licence.suspended']),
  )
})

test('occurred_at decides the order of failures and renewals, not the arrival', async () => {
  const { sale } = await sold()
  await fail(sale, 1)
  await fail(sale, 3)
  // At the same time a renewal comes before a failure.
  await renew(sale, 3, 400)
  expect((await fail(sale, 2)).body.status).toBe('active')
  await fail(sale, 4)
  expect((await fail(sale, 5)).body.status).toBe('suspended')
  // A renewal that was paid in between.
  expect((await renew(sale, 4.5, 410)).body.status).toBe('active')
  await fail(sale, 6)
  expect((await fail(sale, 7)).body.status).toBe('suspended')
  // One that was paid before the row of failures.
  expect((await renew(sale, 2.5, 420)).body.status).toBe('suspended')
})

test('a partial refund of an earlier cycle changes no licence, also if the renewal is reported after it', async () => {
  const { sale, licence } = await sold()
  expect((await refund(sale, 5, 30)).body.status).toBe('downgraded')
  const renewal_id = randomUUID()
  expect((await renew(sale, 3, 420, { renewal_id })).body.status).toBe('active')
  expect((await refund(sale, 6, 10, { renewal_id })).body.status).toBe('downgraded')
  expect((await renew(sale, 2, 430)).body.status).toBe('downgraded')
  await settled()
  const expected = ['created', 'downgraded', 'downgraded', 'reactivated'].map((type) => `licence.${type}`)
  expect(heardOf(licence).filter((event) => event.startsWith('licence'))).toEqual(expected)
})

test('a cancellation ends the purchase at ends_on, or when it occurred', async () => {
  const now = await sold()
  expect((await cancel(now.sale, 100)).body.status).toBe('expired')
  expect((await detail(now.licence)).expires_on).toBe(day(100))
  await eventually(() => expect(heardOf(now.licence)).toContain('licence.expired'))
  const later = await sold({ expires_on: day(220) })
  expect((await cancel(later.sale, 100, { ends_on: day(300) })).body.status).toBe('active')
  expect((await detail(later.licence)).expires_on).toBe(day(300))
  const past = await sold()
  expect((await cancel(past.sale, 100, { ends_on: day(50) })).body.status).toBe('expired')
  const forever = await sold({ expires_on: undefined })
  await cancel(forever.sale, 100, { ends_on: day(260) })
  expect((await detail(forever.licence)).expires_on).toBe(day(260))
  // A full refund after a cancellation revokes.
  await refund(past.sale, 120, 100)
  await becomes(past.licence, 'revoked')
})

test('a cancellation ends the licence when its time comes', async () => {
  const { sale, licence } = await sold()
  const ends_on = new Date(Date.now() + 1_500).toISOString()
  expect((await cancel(sale, 1, { ends_on })).body.status).toBe('active')
  await eventually(async () => expect((await detail(licence)).status).toBe('expired'), { timeoutMs: 40_000 })
}, 60_000)

test('a renewal after the cancellation moves nothing and raises an alert, in either order', async () => {
  const alerts = async (cause: string) =>
    (await allRows<{ kind: string; detail: string }>(api, '/v1/alerts')).filter(
      ({ kind, detail: text }) => kind === 'renewal_without_licence' && text.includes(cause),
    )
  const first = await sold()
  await cancel(first.sale, 50, { ends_on: day(300) })
  expect((await renew(first.sale, 60, 500, { renewal_id: `late-${first.sale}` })).body.status).toBe('active')
  const second = await sold()
  await renew(second.sale, 60, 500, { renewal_id: `late-${second.sale}` })
  await cancel(second.sale, 50, { ends_on: day(300) })
  for (const { sale, licence } of [first, second]) {
    expect((await detail(licence)).expires_on).toBe(day(300))
    await eventually(async () => expect(await alerts(`late-${sale}`)).toHaveLength(1))
  }
  expect(await payments(`?charge_ref=late-${first.sale}`)).toHaveLength(1)
})

test('a licence rests on purchases of several shops and of the processor', async () => {
  const customer = randomUUID()
  const processorPlan = await sells()
  const { licence } = await buy(processorPlan.id, customer)
  // The processor's purchase is the earlier one: its clock says so.
  const soon = ahead(1)
  const other = await plan()
  const sale = randomUUID()
  const fields = { sale_id: sale, external_ref: customer, plan_id: other.id, occurred_at: soon }
  expect((await sell(fields)).body.licence_id).toBe(licence.id)
  expect(await detail(licence.id)).toMatchObject({ plan_id: other.id, expires_on: null })
  const full = { refund_id: 'r', amount: 100, occurred_at: ahead(2) }
  await report(sale, 'refunds', full)
  // The earlier purchase takes over.
  await eventually(async () =>
    expect(await detail(licence.id)).toMatchObject({ plan_id: processorPlan.id, status: 'active' }),
  )
  expect((await history(licence.id)).map(({ type }) => type)).not.toContain('revoked')
  await market.atProcessor('refund', {
    charge: (await payments(`?licence=${licence.id}`)).find((row) => row.charge_ref)!.charge_ref,
  })
  await becomes(licence.id, 'revoked')
})

test('metrics, search and the list of refunds count them like others', async () => {
  const currency = 'chf'
  const { sale, licence } = await sold({ currency })
  const renewal_id = `renewal-${randomUUID()}`
  await renew(sale, 10, 410, { renewal_id, amount: 70, currency })
  await refund(sale, 11, 30, { renewal_id })
  await eventually(async () => {
    const period = `from=${day(0).slice(0, 10)}&to=${day(20).slice(0, 10)}`
    const metrics = await api.get<{ points: { at: string; values: unknown }[] }>(
      `${app}/metrics?metric=payments&${period}&step=day`,
    )
    const shown = metrics.body.points.filter(({ values }) => JSON.stringify(values).includes(currency))
    expect(shown.map(({ at }) => at.slice(0, 10))).toEqual([0, 10, 11].map((on) => day(on).slice(0, 10)))
  })
  const found = await api.get<{ data: { matched: string; licence: { id: string } }[] }>(
    `${app}/search?q=${renewal_id}`,
  )
  expect(found.body.data).toMatchObject([{ matched: 'charge_ref', licence: { id: licence } }])
  const bySale = await api.get<typeof found.body>(`${app}/search?q=${sale}`)
  expect(bySale.body.data).toMatchObject([{ matched: 'sale_id', licence: { id: licence } }])
  expect(await allRows(api, `${app}/refunds?charge_ref=${renewal_id}`)).toMatchObject([{ amount: 30 }])
})

test('sales and renewals of a shop do not count for the spend cap, and a reached cap does not stop them', async () => {
  const { id: soldPlan } = await sells()
  await buy(soldPlan)
  const cap = async () => (await api.get<{ spent_minor: number; paused: boolean }>('/v1/spend-cap')).body
  const { spent_minor } = await cap()
  expect(spent_minor).toBeGreaterThan(0)
  const body = { cap_minor: spent_minor + 1, currency: 'eur' }
  expectStatus(await api.put('/v1/spend-cap', { body }), 200)
  const { sale } = await sold({ amount: 1_000_000, currency: 'eur' })
  expect((await renew(sale, 10, 410, { amount: 1_000_000 })).status).toBe(201)
  expect(await cap()).toMatchObject({ spent_minor, paused: false })
  expectStatus(await api.put('/v1/spend-cap', { body: { ...body, cap_minor: 0 } }), 200)
  expectProblem(await order(soldPlan, 'x'), 409, 'spend_cap_reached')
  const other = await sold({ currency: 'eur' })
  expect((await renew(other.sale, 10, 410)).status).toBe(201)
  expect(await cap()).toMatchObject({ spent_minor, paused: true })
  expectStatus(await api.put('/v1/spend-cap', { body: { cap_minor: null } }), 200)
})

test('a repeated call with an Idempotency-Key gets the first answer', async () => {
  const { sale } = await sold()
  const headers = { 'idempotency-key': randomUUID() }
  const body = { renewal_id: 'n', amount: 5, currency: 'eur', occurred_at: day(1), expires_on: day(500) }
  const first = await api.post(`${at(sale)}/renewals`, { headers, body })
  const again = await api.post(`${at(sale)}/renewals`, { headers, body })
  expect([first.status, again.status, again.headers.get('idempotent-replayed')]).toEqual([201, 201, 'true'])
  expect(again.body).toEqual(first.body)
  const other = await api.post(`${at(sale)}/renewals`, { headers, body: { ...body, amount: 6 } })
  expectProblem(other, 409, 'idempotency_mismatch')
})
