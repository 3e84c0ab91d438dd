import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { givenStudio } from './section-14.ts'
import { claimsOf, expectStatus } from './vendor.ts'

const studio = await givenStudio()
const { api, app, issue, activate, patch, refresh, detail, sell, history } = studio
const { id: planId } = await studio.plan()
const limitOf = async (id: string) => (await detail(id)).updates_until

test('updates_until is set by issue, sale event and PATCH, and cleared by null', async () => {
  const until = '2028-05-01T00:00:00.000Z'
  const { id, updates_until } = await issue(planId, { updates_until: '2028-05-01T02:00:00+02:00' })
  expect([updates_until, await limitOf(id)]).toEqual([until, until])
  // A time in the past is allowed.
  const past = '2001-01-01T00:00:00.000Z'
  expect((await patch(id, { updates_until: past })).body.updates_until).toBe(past)
  expect((await patch(id, { updates_until: null })).body.updates_until).toBeNull()
  expect((await history(id))[0]!.changes).toEqual({ updates_until: { from: past, to: null } })
  const sold = await sell({ external_ref: randomUUID(), plan_id: planId, updates_until: until })
  expect(await limitOf(sold.body.licence_id)).toBe(until)
})

test('an invalid updates_until fails only its own item of an import, and an imported item stays existing', async () => {
  const known = randomUUID()
  const bring = async (dry_run: boolean, ...limits: [legacyKey: string, limit: string | null][]) => {
    const common = { external_ref: 'imported', plan_id: planId }
    const items = limits.map(([legacy_key, updates_until]) => ({ legacy_key, updates_until, ...common }))
    const { body } = await api.post<{ items: { result: string; licence_id: string; error: object }[] }>(
      `${app}/licences/import`,
      { body: { dry_run, items } },
    )
    return body.items
  }
  for (const dryRun of [true, false]) {
    const items = await bring(
      dryRun,
      [known, '2030-01-01T02:00:00+02:00'],
      [randomUUID(), '2030-02-30T00:00:00Z'],
      [randomUUID(), ''],
      [randomUUID(), null],
    )
    expect(items.map(({ result }) => result)).toEqual(['created', 'failed', 'failed', 'created'])
    const detailed = expect.stringContaining('updates_until must be an ISO 8601 timestamp') as string
    expect(items[1]!.error).toMatchObject({ code: 'validation_failed', detail: detailed })
    if (dryRun) continue
    expect(await limitOf(items[0]!.licence_id)).toBe('2030-01-01T00:00:00.000Z')
    expect(await limitOf(items[3]!.licence_id)).toBeNull()
  }
  expect(await bring(false, [known, 'tomorrow'])).toMatchObject([{ result: 'existing' }])
})

test('a payment at a price with updates_months moves the limit, never to an earlier time', async () => {
  const { sells, buy } = studio
  const plan = await sells({ updates_months: 12 })
  expect((await api.get(`${app}/plans/${plan.id}/price`)).body).toMatchObject({ updates_months: 12 })
  const customer = randomUUID()
  const { licence } = await buy(plan.id, customer)
  const { id, updates_until: first } = licence
  const inAYear = new Date()
  inAYear.setUTCMonth(inAYear.getUTCMonth() + 12)
  expect(Math.abs(Date.parse(first!) - inAYear.getTime())).toBeLessThan(120_000)
  const afterPayment = async (limit: string | null) => {
    await patch(id, { updates_until: limit })
    await buy(plan.id, customer)
    return limitOf(id)
  }
  expect(Date.parse((await afterPayment('2001-01-01T00:00:00.000Z'))!)).toBeGreaterThanOrEqual(
    Date.parse(first!),
  )
  expect(await afterPayment('2090-01-01T00:00:00.000Z')).toBe('2090-01-01T00:00:00.000Z')
  expect(await afterPayment(null)).toBeNull()
  // A sale that names the plan instead of a price does not move the limit.
  await patch(id, { updates_until: '2001-01-01T00:00:00.000Z' })
  await sell({ external_ref: customer, plan_id: plan.id })
  expect(await limitOf(id)).toBe('2001-01-01T00:00:00.000Z')
})

test('tokens have the claim upd, the service refuses nothing because of it, and the SDK includes releases before it', async () => {
  const updates_until = '2020-01-01T00:00:00.000Z'
  const licence = await issue(planId, { updates_until })
  const { body: grant } = await activate(licence)
  expect(claimsOf(grant.token)['upd']).toBe(Date.parse(updates_until) / 1000)
  await patch(licence.id, { updates_until: null })
  expect(claimsOf((await refresh(grant)).body.token)['upd']).toBeNull()

  expectStatus(await patch(licence.id, { updates_until }), 200)
  using product = studio.install({ licenceKey: licence.key })
  expect(await product.activate()).toMatchObject({ usable: true, updatesUntil: updates_until })
  expect(product.covers('2019-12-31')).toBe(true)
  expect(product.covers(new Date(updates_until))).toBe(true)
  expect(product.covers('2020-01-01T00:00:01Z')).toBe(false)
})
