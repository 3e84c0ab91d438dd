import { eventually } from '@licensing/test-support/poll'
import { sharedStack } from '@licensing/test-support/shared-stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { awaitTurn } from '@licensing/test-support/turn-of-day'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { allRows, expectInvalid, expectProblem, givenVendor, isoTime } from './vendor.ts'
import type { Licence, Page } from './vendor.ts'

let stack: Stack
beforeAll(async () => {
  stack = await sharedStack()
  const connected = await stack.api.put('/v1/processor', {
    body: { processor: 'stripe', connected_account: 'acct_1Support' },
  })
  if (connected.status !== 200) throw new Error(JSON.stringify(connected.body))
})
afterAll(() => stack[Symbol.asyncDispose]())

interface Session {
  id: string
  url: string
  status: string
  licence_id: string | null
  reason: string | null
  created_at: string
}

interface Payment {
  id: string
  licence_id: string
  session_id: string | null
  charge_ref: string
  occurred_at: string
}

interface Sale {
  id: string
  sale_id: string
  status: string
  licence_id: string | null
  reason: string | null
}

async function atProcessor(action: string, body: object): Promise<void> {
  const response = await fetch(`${stack.simulator!.url}/_sim/${action}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`${action}: ${response.status} ${await response.text()}`)
}

/** An application that sells one plan at 49.00 eur. */
async function givenShop() {
  const vendor = await givenVendor(stack)
  const { api, app } = vendor
  const plan = await vendor.plan()
  const price = { price_id: `price_${randomUUID()}`, amount: 4_900, currency: 'eur', mode: 'payment' }
  expect((await api.put(`${app}/plans/${plan.id}/price`, { body: price })).status).toBe(200)
  const open = async (externalRef: string) => {
    const opened = await api.post<Session>(`${app}/checkout-sessions`, {
      body: {
        plan_id: plan.id,
        external_ref: externalRef,
        success_url: 'https://shop.example.com/thanks',
        cancel_url: 'https://shop.example.com/',
      },
    })
    expect(opened.status, JSON.stringify(opened.body)).toBe(201)
    return opened.body
  }
  const session = async (id: string) => (await api.get<Session>(`${app}/checkout-sessions/${id}`)).body
  const reaches = (id: string, status: string) =>
    eventually(async () => {
      const found = await session(id)
      expect(found.status).toBe(status)
      return found
    })
  const pay = ({ url }: Session) => atProcessor('pay', { session: new URL(url).pathname.split('/').at(-1)! })
  const buy = async (externalRef: string) => {
    const opened = await open(externalRef)
    await pay(opened)
    return reaches(opened.id, 'provisioned')
  }
  const payments = (query = '') => allRows<Payment>(api, `${app}/payments${query}`, 1)
  const sell = (saleId: string, fields: object = {}) =>
    api.post<Sale>(`${app}/sale-events`, {
      body: {
        sale_id: saleId,
        external_ref: `customer of ${saleId}`,
        plan_id: plan.id,
        amount: 1_000,
        currency: 'usd',
        occurred_at: new Date().toISOString(),
        ...fields,
      },
    })
  const search = async (q: string) => {
    const answer = await api.get<{ data: { matched: string; licence: Licence }[] }>(
      `${app}/search?q=${encodeURIComponent(q)}`,
    )
    expect(answer.status, JSON.stringify(answer.body)).toBe(200)
    return answer.body.data
  }
  const found = async (q: string) =>
    (await search(q)).map(({ matched, licence }) => `${matched} ${licence.id}`)
  return { ...vendor, sold: plan, open, pay, buy, reaches, session, payments, sell, search, found }
}

const hourMs = 3_600_000
const ago = (ms: number) => new Date(Date.now() - ms).toISOString()

test('a licence is found by its charge, checkout session and sale, by its key and ids, host and reference', async () => {
  const { api, app, buy, payments, sell, found, search, activate, issue, sold } = await givenShop()
  const bought = await buy('Ann Müller')
  const [payment] = await payments()
  const bySale = (await sell('order/17')).body
  expect(await found(payment!.charge_ref)).toEqual([`charge_ref ${bought.licence_id}`])
  expect(await found(bought.id)).toEqual([`session_id ${bought.licence_id}`])
  expect(await found(' order/17 ')).toEqual([`sale_id ${bySale.licence_id}`])
  const licence = await issue(sold.id, {
    external_ref: 'ANN MÜLLER GmbH',
    restrictions: { domains: ['ci.mueller.example'] },
  })
  const { activation_id: activation } = (await activate(licence, { host: 'ci.mueller.example' })).body
  const row = (await api.get<Page<Licence>>(`${app}/licences?limit=1`)).body.data[0]
  expect(await search(licence.key.replaceAll('-', '').toLowerCase())).toEqual([
    { matched: 'key', licence: row },
  ])
  expect(await found(licence.id)).toEqual([`id ${licence.id}`])
  expect(await found(activation)).toEqual([`activation_id ${licence.id}`])
  expect(await found('CI.mueller.example')).toEqual([`host ${licence.id}`])
  expect(await found('ann mÜ')).toEqual([`external_ref ${licence.id}`, `external_ref ${bought.licence_id}`])
  expect(await found('ann müller')).toEqual([
    `external_ref ${bought.licence_id}`,
    `external_ref ${licence.id}`,
  ])
  const other = await givenVendor(stack)
  for (const q of [licence.id, payment!.charge_ref, 'order/17']) {
    const elsewhere = await api.get<Page<object>>(`${other.app}/search?q=${encodeURIComponent(q)}`)
    expect(elsewhere.body.data).toEqual([])
  }
  for (const query of ['', '?q=', '?q=%20x%20', `?q=${'x'.repeat(256)}`, '?q=nul%00']) {
    expectInvalid(await api.get(`${app}/search${query}`), '/q')
  }
})

test('payments and refunds are listed by time, licence and charge', async () => {
  const { api, app, buy, payments } = await givenShop()
  const first = await buy('one')
  const second = await buy('two')
  const [newer, older] = await payments()
  expect([newer!.licence_id, older!.licence_id]).toEqual([second.licence_id, first.licence_id])
  const ids = async (query: string) => (await payments(query)).map(({ id }) => id)
  expect(await ids(`?licence=${first.licence_id}`)).toEqual([older!.id])
  expect(await ids(`?charge_ref=${newer!.charge_ref}`)).toEqual([newer!.id])
  expect(await ids(`?charge_ref=${newer!.charge_ref}&licence=${first.licence_id}`)).toEqual([])
  expect(await ids(`?since=${ago(hourMs)}`)).toEqual([newer!.id, older!.id])
  expect(await ids(`?until=${ago(hourMs)}`)).toEqual([])
  expect(await ids(`?since=${older!.occurred_at}&until=${ago(-hourMs)}`)).toContain(older!.id)
  expect(await ids(`?until=${older!.occurred_at}`)).not.toContain(older!.id)

  await atProcessor('refund', { charge: older!.charge_ref, amount: 100 })
  const refunds = (query = '') =>
    allRows<{ id: string; licence_id: string; charge_ref: string }>(api, `${app}/refunds${query}`, 1)
  const [refund] = await eventually(async () => {
    const rows = await refunds()
    expect(rows).toHaveLength(1)
    return rows
  })
  expect(refund).toMatchObject({ licence_id: first.licence_id, charge_ref: older!.charge_ref })
  expect(
    await refunds(`?licence=${first.licence_id}&charge_ref=${older!.charge_ref}&since=${ago(hourMs)}`),
  ).toEqual([refund])
  for (const none of [
    `?licence=${second.licence_id}`,
    `?charge_ref=${newer!.charge_ref}`,
    `?until=${ago(hourMs)}`,
    `?since=${ago(-hourMs)}`,
    '?licence=nonsense',
    '?licence=lic_01k9zj3v8qe5ktw2m4x6r7n8ab',
  ]) {
    expect(await refunds(none)).toEqual([])
    if (none.startsWith('?licence=n')) expect(await payments(none)).toEqual([])
  }
  for (const list of ['payments', 'refunds', 'checkout-sessions', 'sale-events']) {
    for (const filter of ['since', 'until']) {
      for (const value of ['', 'yesterday', '2026-02-30T00:00:00Z', '2026-01-01']) {
        expectInvalid(await api.get(`${app}/${list}?${filter}=${value}`), `/${filter}`)
      }
    }
  }
})

test('checkouts are listed by status, customer and time, and each row equals the single read, with the reason of a failure', async () => {
  const { api, app, open, pay, buy, reaches, session, sold } = await givenShop()
  const list = (query = '') => allRows<Session>(api, `${app}/checkout-sessions${query}`, 1)
  const provisioned = await buy('ann')
  const waiting = await open('ann')
  const failing = await open('bob')
  expect((await api.post(`${app}/plans/${sold.id}/archive`)).status).toBe(200)
  await pay(failing)
  const failed = await reaches(failing.id, 'provision_failed')
  expect(failed).toMatchObject({
    reason: 'plan_archived',
    licence_id: null,
    created_at: expect.stringMatching(isoTime),
  })
  expect(provisioned).toMatchObject({ reason: null, licence_id: expect.stringMatching(/^lic_/) })
  expect(await list()).toEqual([failed, await session(waiting.id), provisioned])
  const ids = async (query: string) => (await list(query)).map(({ id }) => id)
  expect(await ids('?status=provision_failed')).toEqual([failing.id])
  expect(await ids('?external_ref=ann')).toEqual([waiting.id, provisioned.id])
  expect(await ids('?external_ref=ann&status=open')).toEqual([waiting.id])
  expect(await ids(`?since=${waiting.created_at}&until=${ago(-hourMs)}`)).toContain(waiting.id)
  expect(await ids(`?until=${provisioned.created_at}`)).toEqual([])
  expectInvalid(await api.get(`${app}/checkout-sessions?status=paid`), '/status')
})

test('sale events are listed in order of creation, with the reason of a failed provision until it succeeds', async () => {
  const { api, app, sell, sold } = await givenShop()
  const list = (query = '') => allRows<Sale>(api, `${app}/sale-events${query}`, 1)
  const first = (await sell('s-1')).body
  await api.post(`${app}/plans/${sold.id}/archive`)
  const body = { occurred_at: '2026-01-02T03:04:05.006Z' }
  const second = (await sell('s-2', body)).body
  expect(second).toMatchObject({ status: 'provision_failed', licence_id: null })
  const row = {
    id: second.id,
    sale_id: 's-2',
    external_ref: 'customer of s-2',
    plan_id: sold.id,
    amount: 1_000,
    currency: 'usd',
    occurred_at: '2026-01-02T03:04:05.006Z',
    status: 'provision_failed',
    licence_id: null,
    reason: 'plan_archived',
  }
  const rows = await list()
  expect(rows.map(({ id }) => id)).toEqual([second.id, first.id])
  expect(rows[0]).toEqual(row)
  expect(rows[1]).toMatchObject({ status: 'provisioned', reason: null, licence_id: first.licence_id })
  expect(await list('?status=provision_failed')).toEqual([row])
  expect(await list('?since=2026-01-02T03:04:05.006Z&until=2026-01-02T03:04:05.007Z')).toEqual([row])
  expect(await list('?until=2026-01-02T03:04:05.006Z')).toEqual([])
  expectInvalid(await api.get(`${app}/sale-events?status=open`), '/status')
  await api.post(`${app}/plans/${sold.id}/restore`)
  const again = await sell('s-2', body)
  expect(again.body).toMatchObject({ status: 'provisioned', licence_id: expect.stringMatching(/^lic_/) })
  expect((await list())[0]).toMatchObject({
    status: 'provisioned',
    reason: null,
    licence_id: again.body.licence_id,
  })
})

interface Metrics {
  metric: string
  step: string
  from: string
  to: string
  points: { at: string; values: Record<string, unknown> }[]
}

test('metrics have a point for every step, which counts a change after at most 10 seconds', async () => {
  await awaitTurn('day')
  const { api, app, buy, issue, verb, activate, sold, payments } = await givenShop()
  const bought = await buy('payer')
  const licences = [await issue(sold.id), await issue(sold.id)]
  await verb('suspend', licences[0]!.id)
  const { activation_id: activation } = (await activate(licences[1]!)).body
  await api.delete(`/v1/licences/${licences[1]!.id}/activations/${activation}`)
  const [payment] = await payments(`?licence=${bought.licence_id}`)
  await atProcessor('refund', { charge: payment!.charge_ref, amount: 900 })

  const day = (ahead: number) => new Date(Date.now() + ahead * 24 * hourMs).toISOString().slice(0, 10)
  const read = async (metric: string, from: string, to: string, step = 'day') => {
    const answer = await api.get<Metrics>(
      `${app}/metrics?metric=${metric}&from=${from}&to=${to}&step=${step}`,
    )
    expect(answer.status, JSON.stringify(answer.body)).toBe(200)
    return answer.body
  }
  const [yesterday, today, tomorrow] = [day(-1), day(0), day(1)]
  const none = {
    issued: 0,
    imported: 0,
    created: 0,
    suspended: 0,
    reactivated: 0,
    revoked: 0,
    expired: 0,
    retired: 0,
    downgraded: 0,
    active: 0,
  }
  await eventually(async () => {
    expect(await read('licences', yesterday, tomorrow)).toEqual({
      metric: 'licences',
      step: 'day',
      from: yesterday,
      to: tomorrow,
      points: [
        { at: `${yesterday}T00:00:00.000Z`, values: none },
        {
          at: `${today}T00:00:00.000Z`,
          values: { ...none, issued: 2, created: 1, suspended: 1, downgraded: 1, active: 1 },
        },
        { at: `${tomorrow}T00:00:00.000Z`, values: none },
      ],
    })
  })
  expect((await read('activations', today, today)).points).toEqual([
    { at: `${today}T00:00:00.000Z`, values: { new: 1, freed: 1, seen: 1 } },
  ])
  await eventually(async () =>
    expect((await read('payments', yesterday, tomorrow)).points.map(({ values }) => values)).toEqual([
      {},
      { eur: { count: 1, gross_minor: 4_900, refunded_minor: 900, fee_minor: 128 } },
      {},
    ]),
  )
  const deliveries = await read('deliveries', yesterday, today, 'hour')
  expect(deliveries.points).toHaveLength(48)
  expect(deliveries.points[0]).toEqual({
    at: `${yesterday}T00:00:00.000Z`,
    values: { delivered: 0, failed_attempts: 0, p50_ms: null, p95_ms: null },
  })
  const year = await read('licences', day(-364), today)
  expect(year.points).toHaveLength(365)
  expect(year.points.at(-1)!.values).toMatchObject({ active: 1 })
  const ahead = await read('licences', tomorrow, day(3))
  expect(ahead.points.map(({ values }) => values)).toEqual([none, none, none])
})

test('invalid parameters of a metric are refused', async () => {
  const { api, app } = await givenVendor(stack)
  const refused = async (query: string, ...pointers: string[]) =>
    expectInvalid(await api.get(`${app}/metrics?${query}`), ...pointers)
  const span = 'from=2026-01-01&to=2026-01-07'
  await refused('', '/metric', '/from', '/to', '/step')
  await refused(`metric=revenue&${span}&step=day`, '/metric')
  await refused(`metric=licences&${span}&step=week`, '/step')
  for (const metric of ['licences', 'activations', 'payments'])
    await refused(`metric=${metric}&${span}&step=hour`, '/step')
  await refused('metric=deliveries&from=2026-01-01&to=2026-01-08&step=hour', '/to')
  await refused('metric=licences&from=2025-01-01&to=2026-01-02&step=day', '/to')
  await refused('metric=licences&from=2026-01-02&to=2026-01-01&step=day', '/to')
  for (const from of ['2026-02-29', '2026-1-1', '2026-01-01T00:00:00Z', '']) {
    await refused(`metric=licences&from=${from}&to=2026-12-01&step=day`, '/from')
  }
  expect(
    (await api.get(`${app}/metrics?metric=licences&from=2025-01-01&to=2026-01-01&step=day`)).status,
  ).toBe(200)
  expect((await api.get(`${app}/metrics?metric=deliveries&${span}&step=hour`)).status).toBe(200)
  expectProblem(
    await api.get(`/v1/apps/app_01k9zj3v8qe5ktw2m4x6r7n8ab/metrics?metric=licences&${span}&step=day`),
    404,
    'not_found',
  )
})
