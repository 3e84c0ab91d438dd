import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startMarket } from './shop.ts'
import type { Market } from './shop.ts'
import { allRows } from './vendor.ts'

let market: Market
beforeAll(async () => {
  market = await startMarket()
})
afterAll(() => market[Symbol.asyncDispose]())

const givenShop: Market['givenShop'] = () => market.givenShop()
const atProcessor: Market['atProcessor'] = (action, body) => market.atProcessor(action, body)

test('a full refund within 7 days revokes the licence and credits the fee, and both events are sent', async () => {
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

test('a chargeback revokes when it is opened and gives no credit; an inquiry suspends until it is closed', async () => {
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
