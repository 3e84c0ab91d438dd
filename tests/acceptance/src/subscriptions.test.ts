import { eventually } from '@licensing/test-support/poll'
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { givenMarket, givenShop } from './shop.ts'
import { dayMs, expectStatus, inMs } from './vendor.ts'

const market = await givenMarket()
const { atProcessor } = market

const weekMs = 7 * dayMs

/** A customer of a weekly subscription. */
async function givenSubscriber() {
  const shop = await givenShop(market)
  const id = `price_${randomUUID()}`
  const sold = await shop.sells({ price_id: id, mode: 'subscription', amount: 1_000 })
  const price = { unit_amount: 1_000, currency: 'eur', recurring: { interval: 'week' } }
  await atProcessor('set-price', { id, account: market.connectedAccount, ...price })
  const { licence, subscription } = await shop.buy(sold.id)
  const end = Date.parse(licence.expires_on!)
  // A week, and a grace period of two weeks.
  expect(Math.abs(end - Date.now() - 3 * weekMs)).toBeLessThan(60_000)
  const fails = async (times: number) => {
    for (let attempt = 1; attempt <= times; attempt += 1) await atProcessor('fail-invoice', { subscription })
  }
  return { ...shop, sold, licence, subscription, end, fails }
}

test('a subscription is renewed without events, suspended after 3 failures in a row, resumed by a payment, and ended', async () => {
  const { detail, licence, subscription, end, fails, becomes, hears, heard, fees } = await givenSubscriber()
  await atProcessor('renew', { subscription })
  await eventually(async () => expect(Date.parse((await detail(licence.id)).expires_on!)).toBe(end + weekMs))
  await hears(['licence.created', 'payment.succeeded'])
  await eventually(async () =>
    expect((await fees()).map(({ amount_minor: amount }) => amount)).toEqual([30, 30]),
  )
  await fails(3)
  expect(await becomes(licence.id, 'suspended')).toMatchObject({ status_reason: 'payment_failed' })
  await atProcessor('renew', { subscription })
  await becomes(licence.id, 'active')
  await atProcessor('cancel', { subscription, when: 'now' })
  await becomes(licence.id, 'expired')
  await hears([
    'licence.created',
    'payment.succeeded',
    'licence.suspended',
    'licence.reactivated',
    'licence.expired',
  ])
  const [suspended] = heard('licence.suspended', licence.id)
  const { object } = suspended!.data
  expect(object).toEqual({ licence_id: licence.id, status: 'suspended', reason: 'payment_failed' })
})

test('if a subscription is paid only after four failures and its end, it runs to the end of the paid period', async () => {
  const { patch, sold, licence, subscription, end, fails, becomes, hears } = await givenSubscriber()
  await fails(4)
  expect(await becomes(licence.id, 'suspended')).toMatchObject({ status_reason: 'payment_failed' })
  // A vendor may end it earlier. Otherwise the test would have to wait for the end of the grace period.
  expectStatus(await patch(licence.id, { expires_on: inMs(1_000) }), 200)
  await becomes(licence.id, 'expired')
  await atProcessor('renew', { subscription })
  const paid = await becomes(licence.id, 'active')
  expect(paid).toMatchObject({ status_reason: null, plan_id: sold.id })
  expect(Date.parse(paid.expires_on!)).toBe(end + weekMs)
  await hears([
    'licence.created',
    'payment.succeeded',
    'licence.suspended',
    'licence.expired',
    'licence.reactivated',
  ])
})
