import { LicenceClient } from '@licensing/sdk'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { claimsOf, expectStatus, givenStudio } from './section-14.ts'
import type { FullLicence, Studio } from './section-14.ts'
import { startMarket } from './shop.ts'
import type { Market } from './shop.ts'

let market: Market
let studio: Studio
let planId: string
beforeAll(async () => {
  market = await startMarket()
  studio = await givenStudio(market)
  planId = (await studio.plan()).id
})
afterAll(() => market[Symbol.asyncDispose]())

test('updates_until is set by issue, sale event and PATCH, and cleared by null', async () => {
  const { issue, patch, detail, sell, history } = studio
  const until = '2028-05-01T00:00:00.000Z'
  const licence = await issue(planId, { updates_until: '2028-05-01T02:00:00+02:00' })
  expect(licence.updates_until).toBe(until)
  expect((await detail(licence.id)).updates_until).toBe(until)
  // A time in the past is allowed.
  expect((await patch(licence.id, { updates_until: '2001-01-01T00:00:00Z' })).body.updates_until).toBe(
    '2001-01-01T00:00:00.000Z',
  )
  expect((await patch(licence.id, { updates_until: null })).body.updates_until).toBeNull()
  expect((await history(licence.id))[0]!.changes).toEqual({
    updates_until: { from: '2001-01-01T00:00:00.000Z', to: null },
  })
  const sold = await sell({ external_ref: randomUUID(), plan_id: planId, updates_until: until })
  expect((await detail(sold.body.licence_id)).updates_until).toBe(until)
})

test('an invalid updates_until fails only its own item of an import, and an imported item stays existing', async () => {
  const { api, app, detail } = studio
  const [known, wrong] = [randomUUID(), randomUUID()]
  const importing = (dryRun: boolean, ...items: [legacyKey: string, updatesUntil: string | null][]) =>
    api.post<{ items: { result: string; licence_id: string; error: { code: string; detail: string } }[] }>(
      `${app}/licences/import`,
      {
        body: {
          dry_run: dryRun,
          items: items.map(([legacy_key, updates_until]) => ({
            legacy_key,
            external_ref: 'imported',
            plan_id: planId,
            updates_until,
          })),
        },
      },
    )
  const batch: [string, string | null][] = [
    [known, '2030-01-01T02:00:00+02:00'],
    [wrong, '2030-02-30T00:00:00Z'],
    [randomUUID(), ''],
    [randomUUID(), null],
  ]
  for (const dryRun of [true, false]) {
    const { body } = await importing(dryRun, ...batch)
    expect(body.items.map(({ result }) => result)).toEqual(['created', 'failed', 'failed', 'created'])
    expect(body.items[1]!.error).toMatchObject({
      code: 'validation_failed',
      detail: expect.stringContaining('updates_until must be an ISO 8601 timestamp'),
    })
    if (!dryRun) {
      const limits = [body.items[0]!, body.items[3]!].map(async (item) => detail(item.licence_id))
      expect((await Promise.all(limits)).map((licence) => licence.updates_until)).toEqual([
        '2030-01-01T00:00:00.000Z',
        null,
      ])
    }
  }
  const again = await importing(false, [known, 'tomorrow'])
  expect(again.body.items[0]!.result).toBe('existing')
})

test('a payment at a price with updates_months moves the limit, never to an earlier time', async () => {
  const { sells, buy, patch, detail, sell } = studio
  const plan = await sells({ price_id: `price_${randomUUID()}`, updates_months: 12 })
  const customer = randomUUID()
  const { licence } = await buy(plan.id, customer)
  const { updates_until: first } = licence as FullLicence
  const inAYear = new Date()
  inAYear.setUTCMonth(inAYear.getUTCMonth() + 12)
  expect(Math.abs(Date.parse(first!) - inAYear.getTime())).toBeLessThan(120_000)
  await patch(licence.id, { updates_until: '2001-01-01T00:00:00Z' })
  await buy(plan.id, customer)
  expect(Date.parse((await detail(licence.id)).updates_until!)).toBeGreaterThanOrEqual(Date.parse(first!))
  await patch(licence.id, { updates_until: '2090-01-01T00:00:00Z' })
  await buy(plan.id, customer)
  expect((await detail(licence.id)).updates_until).toBe('2090-01-01T00:00:00.000Z')
  // A sale that names the plan instead of a price does not move the limit.
  await patch(licence.id, { updates_until: '2001-01-01T00:00:00Z' })
  await sell({ external_ref: customer, plan_id: plan.id })
  expect((await detail(licence.id)).updates_until).toBe('2001-01-01T00:00:00.000Z')
  await patch(licence.id, { updates_until: null })
  await buy(plan.id, customer)
  expect((await detail(licence.id)).updates_until).toBeNull()
})

test('the price shows updates_months', async () => {
  const { api, app, sells } = studio
  const plan = await sells({ updates_months: 120 })
  expect((await api.get(`${app}/plans/${plan.id}/price`)).body).toMatchObject({ updates_months: 120 })
  const other = await sells()
  expect((await api.get(`${app}/plans/${other.id}/price`)).body).toMatchObject({ updates_months: null })
})

test('tokens have the claim upd, the service refuses nothing because of it, and the SDK includes releases before it', async () => {
  const { issue, activate, patch, refresh } = studio
  const licence = await issue(planId, { updates_until: '2020-01-01T00:00:00Z' })
  const activated = await activate(licence)
  expectStatus(activated, 201)
  expect(claimsOf(activated.body.token)['upd']).toBe(Date.parse('2020-01-01T00:00:00Z') / 1000)
  await patch(licence.id, { updates_until: null })
  expect(claimsOf((await refresh(activated)).body.token)['upd']).toBeNull()

  await patch(licence.id, { updates_until: '2020-01-01T00:00:00Z' })
  using product = new LicenceClient({
    baseUrl: market.stack.gatewayUrl,
    appId: studio.appId,
    rootKey: studio.rootKey,
    licenceKey: licence.key,
    fingerprint: randomUUID(),
    host: 'a.example.com',
    productVersion: '1',
    background: false,
  })
  expect(await product.activate()).toMatchObject({ usable: true, updatesUntil: '2020-01-01T00:00:00.000Z' })
  expect(product.covers('2019-12-31')).toBe(true)
  expect(product.covers(new Date('2020-01-01T00:00:00Z'))).toBe(true)
  expect(product.covers('2020-01-01T00:00:01Z')).toBe(false)
})
