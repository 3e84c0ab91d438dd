import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { givenMarket, givenShop } from './shop.ts'
import { allRows } from './vendor.ts'

const market = await givenMarket()
const { atProcessor } = market
const sold = ['licence.created', 'payment.succeeded']

test('a full refund within 7 days revokes the licence and credits the fee, and both events are sent', async () => {
  const { api, app, sells, buy, becomes, events, hears, fees, payments } = await givenShop(market)
  const { session, licence } = await buy((await sells()).id)
  await atProcessor('refund', { charge: session.remote })
  await becomes(licence.id, 'revoked')
  await hears([...sold, 'refund.processed', 'licence.revoked'])
  const [payment] = await payments()
  const { charge_ref } = payment!
  const refund = { licence_id: licence.id, charge_ref, amount: 4900, lane: 'full_refund' }
  expect(events().find(({ type }) => type === 'refund.processed')?.data.object).toEqual(refund)
  await eventually(async () =>
    expect(await fees()).toMatchObject([
      { kind: 'credit', amount_minor: -128 },
      { kind: 'charge', amount_minor: 128 },
    ]),
  )
  const id = expect.stringMatching(/^rfd_/) as string
  const rows = await allRows(api, `${app}/refunds`)
  expect(rows).toMatchObject([{ id, ...refund, currency: 'eur', status: 'succeeded' }])
})

test('partial refunds downgrade once to the defaults, and revoke when they add up to the whole', async () => {
  const { sells, buy, becomes, events, hears, define, plan, detail, install } = await givenShop(market)
  await define('seats', 'limit', '1')
  const priced = await sells({}, await plan({ entitlements: [{ key: 'seats', value: '9' }] }))
  const { session, licence } = await buy(priced.id)
  using product = install({ licenceKey: licence.key })
  expect([(await product.activate()).licenceStatus, product.limit('seats')]).toEqual(['active', 9])
  await atProcessor('refund', { charge: session.remote, amount: 1_000 })
  await becomes(licence.id, 'downgraded')
  const refreshed = await product.refresh()
  expect(refreshed).toMatchObject({ status: 'licensed', licenceStatus: 'downgraded' })
  expect(product.limit('seats')).toBe(1)
  const snapshot = [{ key: 'seats', kind: 'limit', value: '9' }]
  expect((await detail(licence.id)).entitlements).toEqual(snapshot)
  await atProcessor('refund', { charge: session.remote, amount: 1_000 })
  const partly = [...sold, 'refund.processed', 'licence.downgraded', 'refund.processed']
  await hears(partly)
  await atProcessor('refund', { charge: session.remote })
  await becomes(licence.id, 'revoked')
  await hears([...partly, 'refund.processed', 'licence.revoked'])
  const refunds = events().filter(({ type }) => type === 'refund.processed')
  expect(refunds.map(({ data }) => [data.object['amount'], data.object['lane']])).toEqual([
    [1_000, 'partial_refund'],
    [1_000, 'partial_refund'],
    [2_900, 'full_refund'],
  ])
  const downgraded = { licence_id: licence.id, status: 'downgraded' }
  expect(events().find(({ type }) => type === 'licence.downgraded')?.data.object).toEqual(downgraded)
})

test('a chargeback revokes when it is opened and gives no credit; an inquiry suspends until it is closed', async () => {
  const { sells, buy, becomes, hears, heard, fees, types } = await givenShop(market)
  const { id: planId } = await sells()
  const disputed = await buy(planId, 'ann')
  await atProcessor('dispute', { charge: disputed.session.remote, kind: 'chargeback' })
  await becomes(disputed.licence.id, 'revoked')
  await hears([...sold, 'refund.processed', 'licence.revoked'])
  const [refund] = heard('refund.processed', disputed.licence.id)
  expect(refund!.data.object).toMatchObject({ amount: 4900, lane: 'chargeback' })
  const asked = await buy(planId, 'bob')
  const inquiry = await atProcessor('dispute', { charge: asked.session.remote, kind: 'inquiry' })
  expect(await becomes(asked.licence.id, 'suspended')).toMatchObject({ status_reason: 'dispute_inquiry' })
  await atProcessor('close-dispute', { dispute: inquiry['id'], outcome: 'warning_closed' })
  await becomes(asked.licence.id, 'active')
  await eventually(() => expect(types().slice(-2)).toEqual(['licence.suspended', 'licence.reactivated']))
  expect(types().filter((type) => type === 'refund.processed')).toHaveLength(1)
  expect((await fees()).map(({ kind }) => kind)).toEqual(['charge', 'charge'])
})
