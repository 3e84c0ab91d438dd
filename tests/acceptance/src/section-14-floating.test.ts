import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { givenStudio } from './section-14.ts'
import { claimsOf, expectNotFound, expectProblem, expectStatus } from './vendor.ts'
import type { Grant } from './vendor.ts'

const studio = await givenStudio()
const { api, issue, detail, patch, history, activate, refresh } = studio
const { id: planId } = await studio.plan()

const floating = (restrictions: object) => issue(planId, { restrictions })
const release = ({ activation_id: id }: Grant, token: string | null) =>
  api.post(`/v1/activations/${id}/release`, { key: token })
const leaseMs = ({ lease_ends_at: end }: Grant) => Date.parse(end!) - Date.now()
const leasesOf = async ({ id }: { id: string }) => (await detail(id)).leases_in_use

/** Activates a machine. */
async function granted(licence: { key: string }, fields: Record<string, unknown> = {}) {
  const { status, body } = await activate(licence, fields)
  expect(status, JSON.stringify(body)).toBeLessThan(300)
  return body
}
const released = async (grant: Grant) => expectStatus(await release(grant, grant.token), 204)
const refreshed = async (grant: Grant) => {
  const answer = await refresh(grant)
  expectStatus(answer, 200)
  return answer.body
}
const isFull = (answer: Awaited<ReturnType<typeof activate>>) => expectProblem(answer, 409, 'limit_reached')

test('an activation holds a lease, which each refresh renews, and the token ends with the lease', async () => {
  const licence = await floating({ max_concurrent: 2 })
  expect(licence.restrictions).toEqual({ max_concurrent: 2, lease_minutes: 15 })
  const first = await granted(licence)
  expect(leaseMs(first)).toBeGreaterThan(14.8 * 60_000)
  expect(leaseMs(first)).toBeLessThan(15.1 * 60_000)
  const { exp, iat } = claimsOf(first.token)
  expect(exp * 1000).toBeLessThanOrEqual(Date.parse(first.lease_ends_at!))
  expect(Date.parse(first.expires_at)).toBe(exp * 1000)
  expect(Math.abs(Date.parse(first.refresh_after) - (iat + (exp - iat) / 2) * 1000)).toBeLessThan(1_001)
  const { lease_ends_at } = await refreshed(first)
  expect(Date.parse(lease_ends_at!)).toBeGreaterThan(Date.parse(first.lease_ends_at!))
  expect(await detail(licence.id)).toMatchObject({
    leases_in_use: 1,
    activations: [{ id: first.activation_id, lease_ends_at }],
  })
  const ordinary = await issue(planId)
  expect((await granted(ordinary)).lease_ends_at).toBeNull()
  expect(await detail(ordinary.id)).toMatchObject({
    leases_in_use: 0,
    activations: [{ lease_ends_at: null }],
  })
})

test('concurrent clients never hold more leases than max_concurrent', async () => {
  const licence = await floating({ max_concurrent: 5, lease_minutes: 60 })
  const answers = await Promise.all(Array.from({ length: 40 }, () => activate(licence)))
  const holders = answers.filter(({ status }) => status === 201).map(({ body }) => body)
  expect(holders).toHaveLength(5)
  for (const answer of answers.filter(({ status }) => status !== 201)) isFull(answer)
  expect(await leasesOf(licence)).toBe(5)
  await Promise.all(holders.slice(0, 3).map(released))
  const again = await Promise.all([
    ...holders.slice(0, 3).map((holder) => refresh(holder)),
    ...Array.from({ length: 10 }, () => activate(licence)),
  ])
  expect(again.filter(({ status }) => status < 300)).toHaveLength(3)
  expect(await leasesOf(licence)).toBe(5)
})

test('release ends the lease and keeps the activation, also without a lease', async () => {
  const licence = await floating({ max_concurrent: 1 })
  const first = await granted(licence)
  isFull(await activate(licence))
  await released(first)
  await released(first)
  const second = await granted(licence)
  const { leases_in_use, activations } = await detail(licence.id)
  expect(leases_in_use).toBe(1)
  expect(activations[1]!.id).toBe(first.activation_id)
  expect(Date.parse(activations[1]!.lease_ends_at!)).toBeLessThanOrEqual(Date.now())
  isFull(await refresh(first))
  await released(second)
  await refreshed(first)
  for (const token of [second.token, null]) {
    expectProblem(await release(first, token), 401, 'unauthenticated')
  }
  const ordinary = await granted(await issue(planId))
  await released(ordinary)
  await refreshed(ordinary)
})

test('max_activations counts machines as before', async () => {
  const licence = await floating({ max_concurrent: 1, max_activations: 2 })
  const first = await granted(licence)
  await released(first)
  await released(await granted(licence))
  isFull(await activate(licence))
  await refreshed(first)
})

test('lowering max_concurrent ends no lease, and a licence that becomes floating gets leases with the next refreshes', async () => {
  const licence = await floating({ max_concurrent: 3 })
  const holders = await Promise.all([1, 2, 3].map(() => granted(licence)))
  await patch(licence.id, { restrictions: { max_concurrent: 1 } })
  expect(await leasesOf(licence)).toBe(3)
  for (const holder of holders) await refreshed(holder)
  await released(holders[0]!)
  isFull(await refresh(holders[0]!))

  const ordinary = await issue(planId)
  const [one, two] = await Promise.all([granted(ordinary), granted(ordinary)])
  await patch(ordinary.id, { restrictions: { max_concurrent: 1, lease_minutes: 5 } })
  expect(await leasesOf(ordinary)).toBe(0)
  expect(leaseMs(await refreshed(one))).toBeLessThan(5.1 * 60_000)
  isFull(await refresh(two))
})

test('an offline file holds a lease until its activation is freed', async () => {
  const licence = await floating({ max_concurrent: 1 })
  const { body: file } = await studio.activateOffline(licence, 30)
  expect((await detail(licence.id)).activations).toMatchObject([{ lease_ends_at: file.expires_at }])
  isFull(await activate(licence))
  await api.delete(`/v1/licences/${licence.id}/activations/${file.activation_id}`)
  await granted(licence)
})

test('replace frees the activation that called home longest ago, at most five times a day', async () => {
  const replace = { replace: 'oldest' }
  const licence = await floating({ max_activations: 2 })
  const [first, second] = [await granted(licence), await granted(licence)]
  await refreshed(first)
  isFull(await activate(licence))
  await granted(licence, replace)
  expectNotFound(await refresh(second))
  await refreshed(first)
  expect((await history(licence.id))[0]).toMatchObject({
    type: 'activation_freed',
    actor: 'product',
    cause: second.activation_id,
  })
  for (let time = 2; time <= 5; time++) await granted(licence, replace)
  isFull(await activate(licence, replace))
  expect((await detail(licence.id)).activations).toHaveLength(2)

  const leased = await floating({ max_concurrent: 1 })
  const idle = await granted(leased)
  await released(idle)
  const holder = await granted(leased)
  await granted(leased, replace)
  expectNotFound(await refresh(holder))
  isFull(await refresh(idle))
})

test('the SDK says no_place, keeps its token to the end, and releases its lease', async () => {
  const licence = await floating({ max_concurrent: 1, lease_minutes: 10 })
  using first = studio.install({ licenceKey: licence.key })
  const fingerprint = randomUUID()
  using second = studio.install({ licenceKey: licence.key, fingerprint })
  const state = await first.activate()
  expect(state).toMatchObject({ status: 'licensed' })
  expect(Date.parse(state.expiresAt!)).toBeLessThanOrEqual(Date.now() + 10 * 60_000)
  const problem = { code: 'no_place' }
  expect(await second.activate()).toMatchObject({ status: 'refused', reason: 'no_place', problem })
  expect(await first.release()).toMatchObject({ status: 'unlicensed', reason: 'released' })
  const held = await second.activate()
  expect(held).toMatchObject({ status: 'licensed', problem: null })
  expect(await leasesOf(licence)).toBe(1)

  // Another process of the machine releases the lease, and another machine takes it. The client is refused another token, but
  // its present token is valid until its end.
  await released(await granted(licence, { fingerprint }))
  await granted(licence)
  const { expiresAt } = held
  const kept = { status: 'grace', usable: true, reason: 'no_place', problem, expiresAt }
  expect(await second.refresh()).toMatchObject(kept)
})
