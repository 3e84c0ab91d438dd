import { expect, test } from 'vitest'
import { givenMarket, givenShop } from './shop.ts'
import { expectInvalid, expectProblem, unknownId } from './vendor.ts'

const market = await givenMarket()

test('a sale of another shop provisions once, costs no fee, and can be repeated safely', async () => {
  const { api, app, sells, sell, plan, hears, fees, licencesOf, events } = await givenShop(market)
  const sold = await sells({ price_id: 'price_elsewhere' })
  const sale = {
    sale_id: 'order-1',
    external_ref: 'ann',
    plan_id: sold.id,
    amount: 4900,
    currency: 'usd',
    occurred_at: '2026-11-01T10:00:00Z',
    expires_on: '2099-01-01T00:00:00.000Z',
  }
  const first = await sell(sale)
  expect(first.status).toBe(201)
  const { licence_id } = first.body
  const id = expect.stringMatching(/^sale_/) as string
  expect(first.body).toEqual({ id, sale_id: 'order-1', licence_id, status: 'provisioned' })
  expect(await sell(sale)).toMatchObject({ status: 200, body: first.body })
  expectProblem(await sell({ ...sale, amount: 1 }), 409, 'idempotency_mismatch')
  expect(await licencesOf('ann')).toMatchObject([{ id: licence_id, expires_on: sale.expires_on }])
  const byPrice = { external_ref: 'bob', plan_id: undefined, price_id: 'price_elsewhere' }
  await sell({ ...sale, sale_id: 'order-2', ...byPrice })
  expect(await licencesOf('bob')).toMatchObject([{ plan_id: sold.id }])

  const retired = await plan()
  await api.post(`${app}/plans/${retired.id}/archive`)
  const failing = { ...sale, sale_id: 'order-3', external_ref: 'cyd', plan_id: retired.id }
  const failed = await sell(failing)
  expect(failed.body).toMatchObject({ status: 'provision_failed', licence_id: null })
  await hears(['licence.created', 'licence.created', 'payment.provision_failed'])
  expect(events().find(({ type }) => type === 'payment.provision_failed')?.data.object).toMatchObject({
    session_id: failed.body.id,
    plan_id: retired.id,
    amount: 4900,
    currency: 'usd',
  })
  await api.post(`${app}/plans/${retired.id}/restore`)
  expect((await sell(failing)).body).toMatchObject({ status: 'provisioned' })
  expect(await licencesOf('cyd')).toHaveLength(1)
  expect(await fees()).toEqual([])

  expectInvalid(await sell({ ...sale, sale_id: 'x', plan_id: unknownId('pln') }), '/plan_id')
  expectInvalid(await sell({ ...sale, sale_id: 'x', occurred_at: 'yesterday' }), '/occurred_at')
})

test('fifty concurrent reports of one sale create one licence', async () => {
  const { sell, sells, licencesOf } = await givenShop(market)
  const { id: plan_id } = await sells()
  const sale = { sale_id: 's', external_ref: 'ann', plan_id, occurred_at: '2026-11-01T10:00:00Z' }
  const answers = await Promise.all(Array.from({ length: 50 }, () => sell(sale)))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(49)
  expect(await licencesOf('ann')).toHaveLength(1)
})
