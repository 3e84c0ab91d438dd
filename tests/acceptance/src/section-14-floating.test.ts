import { LicenceClient, memoryStore } from '@licensing/sdk'
import { eventually } from '@licensing/test-support/poll'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { claimsOf, expectStatus, givenStudio } from './section-14.ts'
import type { Grant, Studio } from './section-14.ts'
import { startMarket } from './shop.ts'
import type { Market } from './shop.ts'
import { expectProblem } from './vendor.ts'

let market: Market
let studio: Studio
let planId: string
beforeAll(async () => {
  market = await startMarket()
  studio = await givenStudio(market)
  planId = (await studio.plan()).id
})
afterAll(() => market[Symbol.asyncDispose]())

const floating = (restrictions: object) => studio.issue(planId, { restrictions })
const release = ({ body }: { body: Grant }) =>
  studio.product(`/v1/activations/${body.activation_id}/release`, undefined, body.token)
const leaseMs = ({ body }: { body: Grant }) => Date.parse(body.lease_ends_at!) - Date.now()

test('an activation holds a lease, which each refresh renews, and the token ends with the lease', async () => {
  const licence = await floating({ max_concurrent: 2 })
  expect(licence.restrictions).toEqual({ max_concurrent: 2, lease_minutes: 15 })
  const activated = await studio.activate(licence)
  expectStatus(activated, 201)
  expect(leaseMs(activated)).toBeGreaterThan(14.8 * 60_000)
  expect(leaseMs(activated)).toBeLessThan(15.1 * 60_000)
  const { exp, iat } = claimsOf(activated.body.token)
  expect(exp * 1000).toBeLessThanOrEqual(Date.parse(activated.body.lease_ends_at!))
  expect(Date.parse(activated.body.expires_at)).toBe(exp * 1000)
  expect(Math.abs(Date.parse(activated.body.refresh_after) - (iat + (exp - iat) / 2) * 1000)).toBeLessThan(
    1_001,
  )
  const refreshed = await studio.refresh(activated)
  expect(Date.parse(refreshed.body.lease_ends_at!)).toBeGreaterThan(Date.parse(activated.body.lease_ends_at!))
  expect(await studio.detail(licence.id)).toMatchObject({
    leases_in_use: 1,
    activations: [{ id: activated.body.activation_id, lease_ends_at: refreshed.body.lease_ends_at }],
  })
  const ordinary = await studio.issue(planId)
  const other = await studio.activate(ordinary)
  expect(other.body.lease_ends_at).toBeNull()
  expect(await studio.detail(ordinary.id)).toMatchObject({
    leases_in_use: 0,
    activations: [{ lease_ends_at: null }],
  })
})

test('concurrent clients never hold more leases than max_concurrent', async () => {
  const licence = await floating({ max_concurrent: 5, lease_minutes: 60 })
  const answers = await Promise.all(Array.from({ length: 40 }, () => studio.activate(licence)))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(5)
  for (const answer of answers.filter(({ status }) => status !== 201))
    expectProblem(answer, 409, 'limit_reached')
  expect((await studio.detail(licence.id)).leases_in_use).toBe(5)
  const holders = answers.filter(({ status }) => status === 201)
  const released = await Promise.all(holders.slice(0, 3).map(release))
  expect(released.map(({ status }) => status)).toEqual([204, 204, 204])
  const again = await Promise.all([
    ...holders.slice(0, 3).map((holder) => studio.refresh(holder)),
    ...Array.from({ length: 10 }, () => studio.activate(licence)),
  ])
  expect(again.filter(({ status }) => status === 200 || status === 201)).toHaveLength(3)
  expect((await studio.detail(licence.id)).leases_in_use).toBe(5)
})

test('release ends the lease and keeps the activation, also without a lease', async () => {
  const licence = await floating({ max_concurrent: 1 })
  const first = await studio.activate(licence)
  expectProblem(await studio.activate(licence), 409, 'limit_reached')
  expectStatus(await release(first), 204)
  expectStatus(await release(first), 204)
  const second = await studio.activate(licence)
  expectStatus(second, 201)
  const detail = await studio.detail(licence.id)
  expect(detail.leases_in_use).toBe(1)
  const [, earlier] = detail.activations
  expect(earlier!.id).toBe(first.body.activation_id)
  expect(Date.parse(earlier!.lease_ends_at!)).toBeLessThanOrEqual(Date.now())
  expectProblem(await studio.refresh(first), 409, 'limit_reached')
  expectStatus(await release(second), 204)
  expectStatus(await studio.refresh(first), 200)
  const path = `/v1/activations/${first.body.activation_id}/release`
  expectProblem(await studio.product(path, undefined, second.body.token), 401, 'unauthenticated')
  expectProblem(await studio.product(path, undefined, null), 401, 'unauthenticated')
  const ordinary = await studio.activate(await studio.issue(planId))
  expectStatus(await release(ordinary), 204)
  expectStatus(await studio.refresh(ordinary), 200)
})

test('max_activations counts machines as before', async () => {
  const licence = await floating({ max_concurrent: 1, max_activations: 2 })
  const first = await studio.activate(licence)
  await release(first)
  const second = await studio.activate(licence)
  await release(second)
  expectProblem(await studio.activate(licence), 409, 'limit_reached')
  expectStatus(await studio.refresh(first), 200)
})

test('lowering max_concurrent ends no lease, and a licence that becomes floating gets leases with the next refreshes', async () => {
  const licence = await floating({ max_concurrent: 3 })
  const holders = await Promise.all([1, 2, 3].map(() => studio.activate(licence)))
  await studio.patch(licence.id, { restrictions: { max_concurrent: 1 } })
  expect((await studio.detail(licence.id)).leases_in_use).toBe(3)
  for (const holder of holders) expectStatus(await studio.refresh(holder), 200)
  await release(holders[0]!)
  expectProblem(await studio.refresh(holders[0]!), 409, 'limit_reached')

  const ordinary = await studio.issue(planId)
  const [one, two] = await Promise.all([studio.activate(ordinary), studio.activate(ordinary)])
  await studio.patch(ordinary.id, { restrictions: { max_concurrent: 1, lease_minutes: 5 } })
  expect((await studio.detail(ordinary.id)).leases_in_use).toBe(0)
  const leased = await studio.refresh(one)
  expectStatus(leased, 200)
  expect(leaseMs(leased)).toBeLessThan(5.1 * 60_000)
  expectProblem(await studio.refresh(two), 409, 'limit_reached')
})

test('an offline file holds a lease until its activation is freed', async () => {
  const licence = await floating({ max_concurrent: 1 })
  const file = await studio.api.post<{ activation_id: string; expires_at: string }>(
    `${studio.app}/offline-activations`,
    { body: { licence_key: licence.key, fingerprint: 'f', host: 'h', product_version: '1', days: 30 } },
  )
  expectStatus(file, 201)
  const [held] = (await studio.detail(licence.id)).activations
  expect(held).toMatchObject({ lease_ends_at: file.body.expires_at })
  expectProblem(await studio.activate(licence), 409, 'limit_reached')
  await studio.api.delete(`/v1/licences/${licence.id}/activations/${file.body.activation_id}`)
  expectStatus(await studio.activate(licence), 201)
})

test('replace frees the activation that called home longest ago, at most five times a day', async () => {
  const { activate, refresh, history, detail } = studio
  const licence = await studio.issue(planId, { restrictions: { max_activations: 2 } })
  const first = await activate(licence)
  const second = await activate(licence)
  await refresh(first)
  expectProblem(await activate(licence), 409, 'limit_reached')
  expectStatus(await activate(licence, randomUUID(), { replace: 'oldest' }), 201)
  expectProblem(await refresh(second), 404, 'not_found')
  expectStatus(await refresh(first), 200)
  expect((await history(licence.id))[0]).toMatchObject({
    type: 'activation_freed',
    actor: 'product',
    cause: second.body.activation_id,
  })
  for (let time = 2; time <= 5; time++) {
    expectStatus(await activate(licence, randomUUID(), { replace: 'oldest' }), 201)
  }
  expectProblem(await activate(licence, randomUUID(), { replace: 'oldest' }), 409, 'limit_reached')
  expect((await detail(licence.id)).activations).toHaveLength(2)

  const leased = await floating({ max_concurrent: 1 })
  const idle = await activate(leased)
  await release(idle)
  const holder = await activate(leased)
  expectStatus(await activate(leased, randomUUID(), { replace: 'oldest' }), 201)
  expectProblem(await refresh(holder), 404, 'not_found')
  expectProblem(await refresh(idle), 409, 'limit_reached')
})

test('the SDK says no_place, keeps its token to the end, and releases its lease', async () => {
  const licence = await floating({ max_concurrent: 1, lease_minutes: 10 })
  const install = () =>
    new LicenceClient({
      baseUrl: market.stack.gatewayUrl,
      appId: studio.appId,
      rootKey: studio.rootKey,
      licenceKey: licence.key,
      fingerprint: randomUUID(),
      host: 'a.example.com',
      productVersion: '1',
      store: memoryStore(),
      background: false,
    })
  using first = install()
  using second = install()
  const state = await first.activate()
  expect(state).toMatchObject({ status: 'licensed' })
  expect(Date.parse(state.expiresAt!)).toBeLessThanOrEqual(Date.now() + 10 * 60_000)
  const refused = await second.activate()
  expect(refused).toMatchObject({ status: 'refused', reason: 'no_place', problem: { code: 'no_place' } })
  expect(await first.release()).toMatchObject({ status: 'unlicensed', reason: 'released' })
  expect(await second.activate()).toMatchObject({ status: 'licensed', problem: null })
  await eventually(async () => expect((await studio.detail(licence.id)).leases_in_use).toBe(1))

  // The client is refused another token, but its present token is valid until its end.
  const other = await floating({ max_concurrent: 1, lease_minutes: 10 })
  using holder = new LicenceClient({
    baseUrl: market.stack.gatewayUrl,
    appId: studio.appId,
    rootKey: studio.rootKey,
    licenceKey: other.key,
    fingerprint: 'holder',
    host: 'a.example.com',
    productVersion: '1',
    background: false,
  })
  const held = await holder.activate()
  const [activation] = (await studio.detail(other.id)).activations
  expect(activation!.id).toBe(held.activationId)
  // Another process of the machine released the lease, and another machine took it.
  const token = await studio.activate(other, 'holder')
  expectStatus(await release(token), 204)
  expectStatus(await studio.activate(other), 201)
  expect(await holder.refresh()).toMatchObject({
    status: 'grace',
    usable: true,
    reason: 'no_place',
    problem: { code: 'no_place' },
    expiresAt: held.expiresAt,
  })
})
