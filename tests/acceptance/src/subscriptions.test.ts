import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startMarket } from './shop.ts'
import type { Market } from './shop.ts'
import type { Licence } from './vendor.ts'

let market: Market
beforeAll(async () => {
  market = await startMarket({ movesClock: true })
})
afterAll(() => market[Symbol.asyncDispose]())

const givenShop: Market['givenShop'] = () => market.givenShop()
const atProcessor: Market['atProcessor'] = (action, body) => market.atProcessor(action, body)

test('a subscription is renewed without events, suspended after 3 failures in a row, resumed by a payment, and ended', async () => {
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

// This test is last, because it leaves the processor's clock changed.
test('if a subscription is paid only after four failures and its end, it runs to the end of the paid period', async () => {
  const { api, sells, checkout, reaches, licencesOf, becomes, hears } = await givenShop()
  const price = { price_id: 'price_weekly', amount: 1_000 }
  const sold = await sells({ ...price, mode: 'subscription' })
  await atProcessor('set-price', {
    id: price.price_id,
    account: market.connectedAccount,
    unit_amount: price.amount,
    currency: 'eur',
    recurring: { interval: 'week' },
  })
  // The purchase is so long ago that the period and its grace period end soon.
  const day = 24 * 3_600
  await atProcessor('clock', { offset_seconds: -(7 + 14) * day + 25 })
  const opened = await checkout(sold.id, 'late')
  const { subscription } = await atProcessor('pay', { session: opened.remote })
  await reaches(opened.id, 'provisioned')
  const [licence] = await licencesOf('late')
  const end = Date.parse(licence!.expires_on!)
  expect(Math.abs(end - Date.now())).toBeLessThan(60_000)

  for (let attempt = 1; attempt <= 4; attempt += 1) await atProcessor('fail-invoice', { subscription })
  expect(await becomes(licence!.id, 'suspended')).toMatchObject({ status_reason: 'payment_failed' })
  await eventually(
    async () => expect((await api.get<Licence>(`/v1/licences/${licence!.id}`)).body.status).toBe('expired'),
    { timeoutMs: 60_000 },
  )
  await atProcessor('renew', { subscription })
  const paid = await becomes(licence!.id, 'active')
  expect(paid).toMatchObject({ status_reason: null, plan_id: sold.id })
  expect(Date.parse(paid.expires_on!)).toBe(end + 7 * day * 1_000)
  await hears([
    'licence.created',
    'payment.succeeded',
    'licence.suspended',
    'licence.expired',
    'licence.reactivated',
  ])
})
