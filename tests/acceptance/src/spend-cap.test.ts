import { eventually } from '@licensing/test-support/poll'
import { awaitTurn } from '@licensing/test-support/turn-of-day'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startMarket } from './shop.ts'
import type { Market } from './shop.ts'
import { expectInvalid, expectProblem, isoTime } from './vendor.ts'

let market: Market
beforeAll(async () => {
  market = await startMarket()
})
afterAll(() => market[Symbol.asyncDispose]())

const givenShop: Market['givenShop'] = () => market.givenShop()
const atProcessor: Market['atProcessor'] = (action, body) => market.atProcessor(action, body)

test('when the spend cap is reached, new checkouts are paused and one event is sent; a higher cap allows checkouts again', async () => {
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
