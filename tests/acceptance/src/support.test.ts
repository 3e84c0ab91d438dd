import { eventually } from '@licensing/test-support/poll'
import { awaitTurn } from '@licensing/test-support/turn-of-day'
import { expect, test } from 'vitest'
import { givenMarket, givenShop } from './shop.ts'
import type { Payment, Sale, Session } from './shop.ts'
import {
  allRows,
  dayMs,
  expectInvalid,
  expectNotFound,
  givenVendor,
  inMs,
  isoTime,
  unknownId,
} from './vendor.ts'
import type { Licence, Page } from './vendor.ts'

const market = await givenMarket()
const { atProcessor } = market
const hourMs = 3_600_000
const idsOf = (rows: { id: string }[]) => rows.map(({ id }) => id)

test('a licence is found by its charge, checkout session and sale, by its key and ids, host and reference', async () => {
  const shop = await givenShop(market)
  const { api, app, buy, payments, sell, activate, issue, licences } = shop
  const sold = await shop.sells()
  const { session, licence: bought } = await buy(sold.id, 'Ann Müller')
  const [payment] = await payments()
  const bySale = (await sell({ sale_id: 'order/17', plan_id: sold.id })).body
  const domain = 'ci.mueller.example'
  const licence = await issue(sold.id, {
    external_ref: 'ANN MÜLLER GmbH',
    restrictions: { domains: [domain] },
  })
  const { activation_id: activation } = (await activate(licence, { host: domain })).body
  const search = async (q: string, at = app) => {
    const path = `${at}/search?q=${encodeURIComponent(q)}`
    return (await api.get<{ data: { matched: string; licence: Licence }[] }>(path)).body.data
  }
  const row = (await licences())[0]
  const key = licence.key.replaceAll('-', '').toLowerCase()
  expect(await search(key)).toEqual([{ matched: 'key', licence: row }])
  for (const [q, ...found] of [
    [payment!.charge_ref, `charge_ref ${bought.id}`],
    [session.id, `session_id ${bought.id}`],
    [' order/17 ', `sale_id ${bySale.licence_id}`],
    [licence.id, `id ${licence.id}`],
    [activation, `activation_id ${licence.id}`],
    ['CI.mueller.example', `host ${licence.id}`],
    ['ann mÜ', `external_ref ${licence.id}`, `external_ref ${bought.id}`],
    ['ann müller', `external_ref ${bought.id}`, `external_ref ${licence.id}`],
  ] as const) {
    expect((await search(q)).map((each) => `${each.matched} ${each.licence.id}`)).toEqual(found)
  }
  const other = await givenVendor(market.stack)
  for (const q of [licence.id, payment!.charge_ref, 'order/17']) {
    expect(await search(q, other.app)).toEqual([])
  }
  for (const query of ['', '?q=', '?q=%20x%20', `?q=${'x'.repeat(256)}`, '?q=nul%00']) {
    expectInvalid(await api.get(`${app}/search${query}`), '/q')
  }
})

test('payments and refunds are listed by time, licence and charge', async () => {
  const { api, app, sells, buy, payments } = await givenShop(market)
  const { id: planId } = await sells()
  const first = (await buy(planId, 'one')).licence.id
  const second = (await buy(planId, 'two')).licence.id
  const rows = await payments()
  expect(rows.map((row) => row.licence_id)).toEqual([second, first])
  const [newer, older] = rows as [Payment, Payment]
  for (const [query, found] of [
    [`licence=${first}`, [older.id]],
    [`charge_ref=${newer.charge_ref}`, [newer.id]],
    [`charge_ref=${newer.charge_ref}&licence=${first}`, []],
    ['licence=nonsense', []],
    [`since=${inMs(-hourMs)}`, [newer.id, older.id]],
    [`until=${inMs(-hourMs)}`, []],
  ] as const) {
    expect(idsOf(await payments(`?${query}`)), query).toEqual(found)
  }
  const at = older.occurred_at
  expect(idsOf(await payments(`?since=${at}&until=${inMs(hourMs)}`))).toContain(older.id)
  expect(idsOf(await payments(`?until=${at}`))).not.toContain(older.id)

  await atProcessor('refund', { charge: older.charge_ref, amount: 100 })
  const refunds = (query = '') => allRows<Payment>(api, `${app}/refunds${query}`, 1)
  const [refund] = await eventually(async () => {
    const found = await refunds()
    expect(found).toMatchObject([{ licence_id: first, charge_ref: older.charge_ref }])
    return found
  })
  const both = `licence=${first}&charge_ref=${older.charge_ref}`
  expect(await refunds(`?${both}&since=${inMs(-hourMs)}`)).toEqual([refund])
  for (const none of [
    `licence=${second}`,
    `charge_ref=${newer.charge_ref}`,
    `until=${inMs(-hourMs)}`,
    `since=${inMs(hourMs)}`,
    `licence=${unknownId('lic')}`,
  ]) {
    expect(await refunds(`?${none}`), none).toEqual([])
  }
  for (const list of ['payments', 'refunds', 'checkout-sessions', 'sale-events', 'webhook-deliveries']) {
    for (const filter of ['since', 'until']) {
      for (const value of ['', '2026-02-30T00:00:00Z', '2026-01-01']) {
        expectInvalid(await api.get(`${app}/${list}?${filter}=${value}`), `/${filter}`)
      }
    }
  }
})

test('checkouts are listed by status, customer and time, and each row equals the single read, with the reason of a failure', async () => {
  const { api, app, sells, checkout, buy, reaches, session } = await givenShop(market)
  const list = (query = '') => allRows<Session>(api, `${app}/checkout-sessions${query}`, 1)
  const { id: planId } = await sells()
  const { session: provisioned, licence } = await buy(planId, 'ann')
  const waiting = await checkout(planId, 'ann')
  const failing = await checkout(planId, 'bob')
  await api.post(`${app}/plans/${planId}/archive`)
  await atProcessor('pay', { session: failing.remote })
  const failed = await reaches(failing.id, 'provision_failed')
  const created_at = expect.stringMatching(isoTime) as string
  expect(failed).toMatchObject({ reason: 'plan_archived', licence_id: null, created_at })
  const read = await session(provisioned.id)
  expect(read).toMatchObject({ reason: null, licence_id: licence.id })
  expect(await list()).toEqual([failed, await session(waiting.id), read])
  for (const [query, found] of [
    ['status=provision_failed', [failing.id]],
    ['external_ref=ann', [waiting.id, provisioned.id]],
    ['external_ref=ann&status=open', [waiting.id]],
    [`until=${provisioned.created_at}`, []],
  ] as const) {
    expect(idsOf(await list(`?${query}`)), query).toEqual(found)
  }
  expect(idsOf(await list(`?since=${waiting.created_at}&until=${inMs(hourMs)}`))).toContain(waiting.id)
  expectInvalid(await api.get(`${app}/checkout-sessions?status=paid`), '/status')
})

test('sale events are listed in order of creation, with the reason of a failed provision until it succeeds', async () => {
  const { api, app, plan, sell } = await givenShop(market)
  const list = (query = '') => allRows<Sale>(api, `${app}/sale-events${query}`, 1)
  const { id: plan_id } = await plan()
  const first = (await sell({ sale_id: 's-1', plan_id })).body
  await api.post(`${app}/plans/${plan_id}/archive`)
  const occurred_at = '2026-01-02T03:04:05.006Z'
  const sale = { sale_id: 's-2', external_ref: 'bob', plan_id, amount: 1_000, currency: 'usd', occurred_at }
  const second = (await sell(sale)).body
  expect(second).toMatchObject({ status: 'provision_failed', licence_id: null })
  const failure = { status: 'provision_failed', licence_id: null, reason: 'plan_archived' }
  const row = { id: second.id, ...sale, ...failure }
  const rows = await list()
  expect(rows).toMatchObject([row, { id: first.id, status: 'provisioned', reason: null }])
  expect(rows[0]).toEqual(row)
  for (const [query, found] of [
    ['status=provision_failed', [row]],
    [`since=${occurred_at}&until=2026-01-02T03:04:05.007Z`, [row]],
    [`until=${occurred_at}`, []],
  ] as const) {
    expect(await list(`?${query}`), query).toEqual(found)
  }
  expectInvalid(await api.get(`${app}/sale-events?status=open`), '/status')
  await api.post(`${app}/plans/${plan_id}/restore`)
  const { licence_id } = (await sell(sale)).body
  expect(licence_id).toMatch(/^lic_/)
  expect((await list())[0]).toMatchObject({ status: 'provisioned', reason: null, licence_id })
})

test('metrics have a point for every step, which counts a change after at most 10 seconds', async () => {
  await awaitTurn('day')
  const { api, app, sells, buy, issue, verb, activate } = await givenShop(market)
  const { id: planId } = await sells()
  const bought = await buy(planId)
  const licences = [await issue(planId), await issue(planId)]
  await verb('suspend', licences[0]!.id)
  const { activation_id: activation } = (await activate(licences[1]!)).body
  await api.delete(`/v1/licences/${licences[1]!.id}/activations/${activation}`)
  await atProcessor('refund', { charge: bought.session.remote, amount: 900 })

  const day = (ahead: number) => inMs(ahead * dayMs).slice(0, 10)
  const read = async (metric: string, from: string, to: string, step = 'day') => {
    const path = `${app}/metrics?metric=${metric}&from=${from}&to=${to}&step=${step}`
    return (await api.get<{ points: { at: string; values: Record<string, unknown> }[] }>(path)).body
  }
  const [yesterday, today, tomorrow] = [day(-1), day(0), day(1)]
  const startOf = (date: string) => `${date}T00:00:00.000Z`
  const names =
    'issued imported created suspended reactivated revoked expired retired downgraded active'.split(' ')
  const none = Object.fromEntries(names.map((name) => [name, 0]))
  const counted = { ...none, issued: 2, created: 1, suspended: 1, downgraded: 1, active: 1 }
  await eventually(async () =>
    expect(await read('licences', yesterday, tomorrow)).toEqual({
      metric: 'licences',
      step: 'day',
      from: yesterday,
      to: tomorrow,
      points: [
        { at: startOf(yesterday), values: none },
        { at: startOf(today), values: counted },
        { at: startOf(tomorrow), values: none },
      ],
    }),
  )
  const activations = { new: 1, freed: 1, seen: 1 }
  expect((await read('activations', today, today)).points).toEqual([
    { at: startOf(today), values: activations },
  ])
  const eur = { count: 1, gross_minor: 4_900, refunded_minor: 900, fee_minor: 128 }
  await eventually(async () =>
    expect((await read('payments', yesterday, tomorrow)).points.map(({ values }) => values)).toEqual([
      {},
      { eur },
      {},
    ]),
  )
  const deliveries = await read('deliveries', yesterday, today, 'hour')
  expect(deliveries.points).toHaveLength(48)
  const nothing = { delivered: 0, failed_attempts: 0, p50_ms: null, p95_ms: null }
  expect(deliveries.points[0]).toEqual({ at: startOf(yesterday), values: nothing })
  const year = await read('licences', day(-365), today)
  expect(year.points).toHaveLength(366)
  expect(year.points.at(-1)!.values).toMatchObject({ active: 1 })
})

test('invalid parameters of a metric are refused', async () => {
  const { api, app } = await givenVendor(market.stack)
  const week = 'from=2026-01-01&to=2026-01-07'
  for (const [query, ...pointers] of [
    ['', '/metric', '/from', '/to', '/step'],
    [`metric=revenue&${week}&step=day`, '/metric'],
    [`metric=licences&${week}&step=week`, '/step'],
    [`metric=licences&${week}&step=hour`, '/step'],
    ['metric=deliveries&from=2026-01-01&to=2026-01-08&step=hour', '/to'],
    ['metric=licences&from=2025-01-01&to=2026-01-02&step=day', '/to'],
    ['metric=licences&from=2026-01-02&to=2026-01-01&step=day', '/to'],
    ['metric=licences&from=2026-02-29&to=2026-12-01&step=day', '/from'],
    ['metric=licences&from=2026-01-01T00:00:00Z&to=2026-12-01&step=day', '/from'],
  ] as const) {
    expectInvalid(await api.get(`${app}/metrics?${query}`), ...pointers)
  }
  const elsewhere = `/v1/apps/${unknownId('app')}/metrics?metric=deliveries&${week}&step=hour`
  expectNotFound(await api.get<Page<object>>(elsewhere))
})
