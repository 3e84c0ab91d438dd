import type { Licence } from '@licensing/proto/licensing'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { TokenGrant } from '@licensing/proto/products'
import { eventually } from '@licensing/test-support/poll'
import { afterEach, expect, test } from 'vitest'
import { expectLeasesConsistent, leasesInUse, passMinutes, setConcurrent } from '../../test/leases.ts'
import { firstPage, givenLicence, history, refusal, verbOn, detailOf } from '../../test/makers.ts'
import type { IssueFields } from '../../test/makers.ts'
import { forFile, startHarness } from '../../test/harness.ts'
import { activate, callOf, givenActivation, lifeOf, activateOffline, tokenOf } from '../../test/products.ts'
import { startUpkeep } from '../sweeps/upkeep.ts'
import { findUnusedLicences, freeUnused } from './unused-queries.ts'

const harness = await forFile(startHarness)
afterEach(async () => {
  harness.clock.aheadMs = 0
  await expectLeasesConsistent(harness)
})

const minute = 60_000
const day = 86_400_000

const given = (fields: IssueFields = {}) => givenLicence(harness, fields)

const refresh = (grant: TokenGrant) => harness.products.refreshActivation(callOf(grant))
const install = (licence: Licence, fingerprint?: string) =>
  givenActivation(harness.products, licence, fingerprint === undefined ? {} : { fingerprint })
const endOf = ({ leaseEndsAt }: Pick<TokenGrant, 'leaseEndsAt'>) => leaseEndsAt && timestampDate(leaseEndsAt)
const passed = (minutes: number, ...grants: { activationId: string }[]) =>
  passMinutes(harness, minutes, { activationIds: grants.map(({ activationId }) => activationId) })

/** `lease_ends_at` as the detail and the list show it, by activation. */
async function shownEnds(licence: Licence): Promise<Record<string, Date | undefined>> {
  const { activations } = await detailOf(harness, licence)
  const list = await harness.licensing.listActivations({ ...verbOn(harness, licence), ...firstPage })
  expect(list.activations).toEqual(activations)
  return Object.fromEntries(activations.map((activation) => [activation.id, endOf(activation)]))
}

const full = { code: 'limit_reached', message: expect.stringContaining('at a time') as string }

test('a lease ends its minutes after the activation or the latest refresh, and the token does not outlast it', async () => {
  const licence = await given({ maxConcurrent: 2, leaseMinutes: 20 })
  const first = await install(licence)
  const expectLease = async (grant: TokenGrant) => {
    expect(Math.abs(endOf(grant)!.getTime() - Date.now() - 20 * minute)).toBeLessThan(minute)
    expect((await shownEnds(licence))[grant.activationId]).toEqual(endOf(grant))
    const { iat, exp, expiresAt, refreshAfter } = lifeOf(grant)
    expect(exp).toBe(Math.floor(endOf(grant)!.getTime() / 1000))
    expect(expiresAt).toBe(exp)
    expect(refreshAfter).toBe(iat + (exp - iat) / 2)
  }
  await expectLease(first)
  await passed(5, first)
  const refreshed = await refresh(first)
  await expectLease(refreshed)
  await passed(5, first)
  const again = await activate(harness.products, licence, { fingerprint: 'another' })
  await expectLease(again.grant!)
  await passed(5, again.grant!)
  const known = await activate(harness.products, licence, { fingerprint: 'another' })
  expect(known.created).toBe(false)
  await expectLease(known.grant!)
  expect(await leasesInUse(harness, licence)).toBe(2)
})

test('if a token would end before the lease, the lease does not lengthen it', async () => {
  const expiresOn = new Date(Date.now() + 5 * minute)
  const licence = await given({ maxConcurrent: 1, leaseMinutes: 10_080, expiresOn })
  expect(lifeOf(await install(licence)).exp).toBe(Math.floor(expiresOn.getTime() / 1000))
  const perpetual = await given({ maxConcurrent: 1, leaseMinutes: 10_080 })
  const { iat, exp } = lifeOf(await refresh(await install(perpetual)))
  expect(exp - iat).toBe(86_400)
})

test('if no lease is free, an activation and a refresh whose lease has ended are refused, and the latter is a call-home', async () => {
  const licence = await given({ maxConcurrent: 2 })
  const [one, two] = [await install(licence), await install(licence)]
  expect(await refusal(activate(harness.products, licence))).toMatchObject(full)
  await passed(16, one)
  const ended = (await shownEnds(licence))[one.activationId]!
  expect(ended.getTime()).toBeLessThan(Date.now())
  expect(await leasesInUse(harness, licence)).toBe(1)
  const three = await install(licence)
  expect(await leasesInUse(harness, licence)).toBe(2)
  const before = await detailOf(harness, licence)
  expect(await refusal(refresh(one))).toMatchObject(full)
  const after = await detailOf(harness, licence)
  expect(after.callHome).toHaveLength(before.callHome.length + 1)
  expect((await shownEnds(licence))[one.activationId]).toEqual(ended)
  expect(await refusal(activate(harness.products, licence))).toMatchObject(full)
  await refresh(two)
  await harness.products.release(callOf(three))
  expect(endOf(await refresh(one))!.getTime()).toBeGreaterThan(Date.now())
  expect(await refusal(refresh(three))).toMatchObject(full)
  expect(after.activationsTotal).toBe(3n)
})

test('a release ends the lease and keeps the activation; it can be repeated, and an expired token is accepted', async () => {
  const licence = await given({ maxConcurrent: 1 })
  const grant = await install(licence, 'one')
  harness.clock.aheadMs = 30 * day
  await harness.products.release(callOf(grant))
  await harness.products.release(callOf(grant))
  harness.clock.aheadMs = 0
  const ends = await shownEnds(licence)
  expect(Math.abs(ends[grant.activationId]!.getTime() - Date.now())).toBeLessThan(minute)
  expect(await leasesInUse(harness, licence)).toBe(0)
  const other = await install(licence, 'other')
  expect(await refusal(refresh(grant))).toMatchObject(full)
  expect((await refusal(harness.products.release(callOf({ ...grant, token: other.token })))).code).toBe(
    'unauthenticated',
  )
  expect(await leasesInUse(harness, licence)).toBe(1)
  await harness.products.release(callOf(other))
  expect((await activate(harness.products, licence, { fingerprint: 'one' })).created).toBe(false)
})

test('an offline file holds a lease until it ends, or until its activation is freed', async () => {
  const licence = await given({ maxConcurrent: 1 })
  const offline = await activateOffline(harness, licence, { fingerprint: 'island' })
  const { activationId, expiresAt } = offline
  expect(await shownEnds(licence)).toEqual({ [activationId]: timestampDate(expiresAt!) })
  const call = { activationId, token: tokenOf(offline) }
  await harness.products.release(call)
  expect(await refusal(activate(harness.products, licence))).toMatchObject(full)
  // A machine that is online again for a while: its own refresh and release change nothing about the file.
  const online = await refresh({ ...(await install(licence, 'island')), ...call })
  expect(endOf(online)).toEqual(timestampDate(expiresAt!))
  expect(lifeOf(online).exp - lifeOf(online).iat).toBe(86_400)
  await activateOffline(harness, licence, { fingerprint: 'island', days: 1 })
  await harness.products.release(call)
  expect(await shownEnds(licence)).toEqual({ [activationId]: timestampDate(expiresAt!) })
  expect(await refusal(activateOffline(harness, licence))).toMatchObject(full)
  await harness.licensing.freeActivation({ ...verbOn(harness, licence), activationId })
  const next = await activateOffline(harness, licence, { days: 1 })
  await passed(24 * 60 + 1, next)
  await install(licence)
})

test('a replica whose clock is wrong neither gives more leases nor ends any', async () => {
  const licence = await given({ maxConcurrent: 2 })
  const [one] = [await install(licence), await install(licence)]
  for (const aheadMs of [-60 * minute, 60 * minute]) {
    harness.clock.aheadMs = aheadMs
    expect(await refusal(activate(harness.products, licence))).toMatchObject(full)
    const refreshed = await refresh(one)
    expect(Math.abs(endOf(refreshed)!.getTime() - Date.now() - 15 * minute)).toBeLessThan(minute)
    expect(lifeOf(refreshed).exp).toBe(Math.floor(endOf(refreshed)!.getTime() / 1000))
  }
})

test('a freed slot is occupied no longer than the lease of its last token', async () => {
  const licence = await given({ maxConcurrent: 5, maxActivations: 1 })
  for (let machine = 0; machine < 10; machine += 1) {
    await harness.products.deactivate(callOf(await install(licence)))
  }
  const last = await refresh(await install(licence))
  await harness.products.deactivate(callOf(last))
  const refused = await refusal(activate(harness.products, licence))
  const [row] = await harness.sql<{ held_until: Date }[]>`
    select held_until from activations where id = ${last.activationId}`
  expect(refused.message).toContain(row!.held_until.toISOString())
  expect(row!.held_until.getTime()).toBeLessThanOrEqual(endOf(last)!.getTime())
  expect(row!.held_until.getTime()).toBeGreaterThanOrEqual(lifeOf(last).exp * 1000)
})

const release = (grant: TokenGrant, products = harness.products) => products.release(callOf(grant))
const deactivate = (grant: TokenGrant) => harness.products.deactivate(callOf(grant))

test('if a product releases right after each token, at most eleven of its tokens are valid at a time', async () => {
  const licence = await given({ maxConcurrent: 1 })
  const tokens: TokenGrant[] = []
  for (let machine = 0; machine < 30; machine += 1) {
    const { grant } = await activate(harness.products, licence).catch(() => ({ grant: undefined }))
    if (!grant) continue
    tokens.push(grant)
    await (machine % 2 === 0 ? release(grant) : deactivate(grant))
  }
  expect(tokens).toHaveLength(11)
  const last = tokens.at(-1)!
  const kept = (await shownEnds(licence))[last.activationId]!
  expect(kept.getTime()).toBe(lifeOf(last).exp * 1000)
  expect(await leasesInUse(harness, licence)).toBe(1)
  expect(await refusal(activate(harness.products, licence))).toMatchObject(full)
  await passed(16, last)
  expect(await leasesInUse(harness, licence)).toBe(0)
  await install(licence)
})

test('a lease that is kept after its release goes on with the next refresh, and is freed again on the next day', async () => {
  const licence = await given({ maxConcurrent: 1 })
  for (let times = 0; times < 10; times += 1) await release(await install(licence, 'one'))
  const grant = await install(licence, 'one')
  await release(grant)
  await passed(10, grant)
  const kept = (await shownEnds(licence))[grant.activationId]!
  // A repetition neither shortens nor prolongs it.
  await release(grant)
  expect((await shownEnds(licence))[grant.activationId]).toEqual(kept)
  const refreshed = await refresh(grant)
  expect(endOf(refreshed)!.getTime()).toBeGreaterThan(kept.getTime() + 9 * minute)
  await harness.sql`update freed_activations set day = day - 1 where licence_id = ${licence.id}`
  await release(refreshed)
  expect(await leasesInUse(harness, licence)).toBe(0)
})

test('a lease that lasts longer than the last token is kept until the end of that token', async () => {
  const licence = await given({ maxConcurrent: 1, leaseMinutes: 10_080 })
  for (let times = 0; times < 10; times += 1) await release(await install(licence))
  const grant = await install(licence)
  await release(grant)
  expect((await shownEnds(licence))[grant.activationId]!.getTime()).toBe(lifeOf(grant).exp * 1000)
  await passed(24 * 60 + 1, grant)
  await install(licence)
})

test('releases that end no valid token do not count: of a lease that has ended, of an ended token, repeated', async () => {
  const licence = await given({ maxConcurrent: 2, leaseMinutes: 10_080 })
  const [ended, tokenEnded] = [await install(licence), await install(licence)]
  await passed(10_081, ended)
  await passed(24 * 60 + 1, tokenEnded)
  for (let times = 0; times < 12; times += 1) {
    await release(ended)
    await release(tokenEnded)
  }
  expect(await leasesInUse(harness, licence)).toBe(0)
  for (let times = 0; times < 10; times += 1) await release(await install(licence))
  expect(await leasesInUse(harness, licence)).toBe(0)
})

test('the eleventh deactivation keeps its lease, which the same machine takes back', async () => {
  const licence = await given({ maxConcurrent: 1 })
  for (let times = 0; times < 10; times += 1) await deactivate(await install(licence))
  const last = await install(licence, 'last')
  await deactivate(last)
  expect(await refusal(activate(harness.products, licence))).toMatchObject(full)
  const again = await install(licence, 'last')
  expect(await leasesInUse(harness, licence)).toBe(1)
  await deactivate(again)
  expect(await refusal(activate(harness.products, licence))).toMatchObject(full)
  await passed(16, again)
  await install(licence)
  expect(await leasesInUse(harness, licence)).toBe(1)
})

test('if the licence becomes floating after a file was made, the file keeps its slot, also after 30 days without a lease', async () => {
  const licence = await given({ maxActivations: 2 })
  const offline = await activateOffline(harness, licence, { days: 366 })
  await setConcurrent(harness, licence, 1)
  await harness.sql`
    update floating_licences set floating_since = now() - interval '31 days' where licence_id = ${licence.id}`
  expect(await findUnusedLicences(harness.sql, 500)).toContain(licence.id)
  await harness.sql.begin((tx) => freeUnused(tx, licence.id, 500))
  expect(await findUnusedLicences(harness.sql, 500)).not.toContain(licence.id)
  expect(Object.keys(await shownEnds(licence))).toEqual([offline.activationId])
})

test('while the lease of a refresh is locked, other refreshes are answered, and that refresh in the end', async () => {
  const licence = await given({ maxConcurrent: 2 })
  const [held, free] = [await install(licence), await install(await given({ maxConcurrent: 1 }))]
  let waiting: Promise<TokenGrant> | undefined
  await harness.sql.begin(async (tx) => {
    await tx`select from licences where id = ${licence.id} for update`
    await tx`select from leases where activation_id = ${held.activationId} for update`
    waiting = refresh(held)
    for (let times = 0; times < 5; times += 1) await refresh(free)
  })
  expect(endOf((await waiting)!)!.getTime()).toBeGreaterThan(endOf(held)!.getTime())
})

test('activations without a lease for 30 days are removed, with entries in the history', async () => {
  const licence = await given({ maxConcurrent: 3 })
  const [idle, recent, running] = [await install(licence), await install(licence), await install(licence)]
  await harness.products.release(callOf(idle))
  await passed(30 * 24 * 60 + 1, idle)
  await passed(29 * 24 * 60, recent)
  await harness.products.recordCallHome(callOf(idle))
  const former = await given()
  const [unleased, leased] = [await install(former), await install(former)]
  await setConcurrent(harness, former, 5)
  await refresh(leased)
  const young = await given()
  const kept = await install(young)
  await setConcurrent(harness, young, 5)
  await harness.sql`
    update floating_licences set floating_since = now() - interval '31 days' where licence_id = ${former.id}`
  const { deps, sql } = harness
  const upkeep = startUpkeep({ sql, change: deps.change, tokenLifeSeconds: 60, log: deps.log })
  await eventually(async () => {
    expect(Object.keys(await shownEnds(licence)).toSorted()).toEqual(
      [recent.activationId, running.activationId].toSorted(),
    )
    expect(Object.keys(await shownEnds(former))).toEqual([leased.activationId])
  })
  await upkeep.stop()
  expect(Object.keys(await shownEnds(young))).toEqual([kept.activationId])
  for (const [of, gone] of [
    [licence, idle],
    [former, unleased],
  ] as const) {
    expect(await history(harness, of)).toContainEqual(
      expect.objectContaining({ type: 'activation_freed', actor: 'sweep', cause: gone.activationId }),
    )
    expect(await refusal(refresh(gone))).toMatchObject({ code: 'not_found' })
  }
  expect(await leasesInUse(harness, licence)).toBe(1)
})
