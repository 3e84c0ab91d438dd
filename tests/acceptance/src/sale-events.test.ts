import { afterAll, beforeAll, expect, test } from 'vitest'
import { startMarket } from './shop.ts'
import type { Market } from './shop.ts'
import { expectInvalid, expectProblem } from './vendor.ts'

let market: Market
beforeAll(async () => {
  market = await startMarket()
})
afterAll(() => market[Symbol.asyncDispose]())

const givenShop: Market['givenShop'] = () => market.givenShop()

test('a sale of another shop provisions once, costs no fee, and can be repeated safely', async () => {
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

test('fifty concurrent reports of one sale create one licence', async () => {
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
