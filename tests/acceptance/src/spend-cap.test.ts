import { eventually } from '@licensing/test-support/poll'
import { awaitTurn } from '@licensing/test-support/turn-of-day'
import { expect, test } from 'vitest'
import { givenMarket, givenShop } from './shop.ts'
import { expectInvalid, expectProblem, expectStatus, isoTime } from './vendor.ts'

const market = await givenMarket()

test('when the spend cap is reached, new checkouts are paused and one event is sent; a higher cap allows checkouts again', async () => {
  await awaitTurn('day')
  const { api, sells, checkout, order, reaches, events } = await givenShop(market)
  const { id: planId } = await sells()
  const cap = async () => (await api.get('/v1/spend-cap')).body
  const set = (fields: object) => api.put('/v1/spend-cap', { body: fields })
  const setTo = async (cap_minor: number) => (await set({ cap_minor, currency: 'eur' })).body
  const pay = async ({ id, remote }: { id: string; remote: string }) => {
    await market.atProcessor('pay', { session: remote })
    await reaches(id, 'provisioned')
  }
  const period = new Date().toISOString().slice(0, 7)
  expect(await cap()).toMatchObject({ period, cap_minor: null, paused: false, reached_at: null })
  expectInvalid(await set({ cap_minor: -1, currency: 'eur' }), '/cap_minor')
  expectInvalid(await set({ cap_minor: 1 }), '/currency')
  const reached = { cap_minor: 128, currency: 'eur' }
  expect(await setTo(128)).toMatchObject({ ...reached, spent_minor: 0, paused: false })
  const [first, second] = [await checkout(planId), await checkout(planId)]
  await pay(first)
  const reached_at = expect.stringMatching(isoTime) as string
  await eventually(async () =>
    expect(await cap()).toMatchObject({ paused: true, spent_minor: 128, reached_at }),
  )
  expectProblem(await order(planId, 'x'), 409, 'spend_cap_reached')
  await pay(second)
  expect(await setTo(10_000)).toMatchObject({ paused: false })
  expectStatus(await order(planId, 'x'), 201)
  await setTo(1)
  expect(await cap()).toMatchObject({ paused: true })
  expectProblem(await order(planId, 'y'), 409, 'spend_cap_reached')
  expect((await set({ cap_minor: null })).body).toMatchObject({ cap_minor: null, paused: false })
  const reported = () => events().filter(({ type }) => type === 'spend_cap.reached')
  await eventually(() => expect(reported()).toHaveLength(1))
  expect(reported()[0]!.data.object).toMatchObject({ period, cap_minor: 128, spent_minor: 128 })
})
