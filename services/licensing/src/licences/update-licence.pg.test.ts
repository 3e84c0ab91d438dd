import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { MessageInitShape } from '@bufbuild/protobuf'
import type { RestrictionsSchema } from '@licensing/proto/licensing'
import { expect, test } from 'vitest'
import { forFile, startHarness } from '../../test/harness.ts'
import {
  actor,
  events,
  givenLicence,
  givenLicenceIn,
  givenPlan,
  history,
  refusal,
  statusOf,
  listedIds,
  changeOf,
  changesOf,
} from '../../test/makers.ts'
import { apply, buy, daysAgo, inDays } from '../../test/purchases.ts'
import { sweepExpiries } from '../sweeps/sweep-expiries.ts'

const harness = await forFile(startHarness)

interface Fields {
  externalRef?: string
  restrictions?: MessageInitShape<typeof RestrictionsSchema>
  /** `null` clears it. */
  end?: Date | null
  updatesUntil?: Date | null
}

const update = (licence: { id: string }, fields: Fields) =>
  harness.licensing.updateLicence(requestFor(licence, fields))
const requestFor = (licence: { id: string }, { end, updatesUntil, ...fields }: Fields) =>
  changeOf(harness, licence, {
    ...fields,
    ...(end !== undefined && { expiresOn: end && timestampFromDate(end) }),
    ...(updatesUntil !== undefined && { updatesUntil: updatesUntil && timestampFromDate(updatesUntil) }),
  })

test('the history has the old and new values and the actor; no event is sent', async () => {
  const licence = await givenLicence(harness, { externalRef: 'old', domains: ['a.example'] })
  const end = inDays(30)
  const updated = await update(licence, {
    externalRef: 'new "quoted" ü',
    restrictions: { domains: ['B.example'], maxSeats: 3 },
    end,
  })
  expect(updated).toMatchObject({
    externalRef: 'new "quoted" ü',
    restrictions: { domains: ['b.example'], maxSeats: 3 },
    status: 'active',
  })
  expect(timestampDate(updated.expiresOn!)).toEqual(end)
  expect((await history(harness, licence)).at(-1)).toEqual({
    type: 'changed',
    from: 'active',
    to: 'active',
    actor,
    cause: undefined,
  })
  const changes = {
    external_ref: { from: 'old', to: 'new "quoted" ü' },
    restrictions: { from: { domains: ['a.example'] }, to: { domains: ['b.example'], max_seats: 3 } },
    expires_on: { from: null, to: end.toISOString() },
  }
  expect(await changesOf(harness, licence)).toEqual([{ actor, changes }])
  expect(await events(harness, licence)).toEqual([])
})

test('the end of updates and the limits of a floating licence are set and cleared, with history', async () => {
  const licence = await givenLicence(harness, { updatesUntil: daysAgo(2) })
  expect(timestampDate(licence.updatesUntil!).getTime()).toBeLessThan(Date.now())
  const from = timestampDate(licence.updatesUntil!).toISOString()
  const updatesUntil = inDays(300)
  const floating = { maxConcurrent: 3, leaseMinutes: 20 }
  const updated = await update(licence, { updatesUntil, restrictions: floating })
  expect(updated.restrictions).toMatchObject(floating)
  const to = updatesUntil.toISOString()
  const restrictions = { from: null, to: { max_concurrent: 3, lease_minutes: 20 } }
  expect(await changesOf(harness, licence)).toEqual([
    { actor, changes: { updates_until: { from, to }, restrictions } },
  ])
  await update(licence, { updatesUntil, restrictions: floating })
  expect(await changesOf(harness, licence)).toHaveLength(1)
  // The default length of a lease.
  await update(licence, { restrictions: { maxConcurrent: 3 } })
  const usual = { from: restrictions.to, to: { max_concurrent: 3, lease_minutes: 15 } }
  expect((await changesOf(harness, licence)).at(-1)).toEqual({ actor, changes: { restrictions: usual } })
  const cleared = await update(licence, { updatesUntil: null, restrictions: {} })
  expect([cleared.updatesUntil, cleared.restrictions]).toEqual([undefined, undefined])
  const invalid: [Fields, string][] = [
    [{ restrictions: { leaseMinutes: 5 } }, '/restrictions/lease_minutes'],
    [{ restrictions: { maxConcurrent: 0 } }, '/restrictions/max_concurrent'],
    [{ restrictions: { maxConcurrent: 1, leaseMinutes: 10_081 } }, '/restrictions/lease_minutes'],
  ]
  for (const [fields, pointer] of invalid) {
    expect((await refusal(update(licence, fields))).errors[0]?.pointer).toBe(pointer)
  }
})

test('empty restrictions and a null end clear the old values; the list finds the licence only by its new domains', async () => {
  const licence = await givenLicence(harness, { domains: ['was.example'], maxActivations: 1 })
  await update(licence, { restrictions: { domains: ['is.example'] } })
  expect([
    await listedIds(harness, { domain: 'was.example' }),
    await listedIds(harness, { domain: 'is.example' }),
  ]).toEqual([[], [licence.id]])
  await update(licence, { end: inDays(9) })
  const cleared = await update(licence, { restrictions: {}, end: null })
  expect([cleared.restrictions, cleared.expiresOn]).toEqual([undefined, undefined])
  expect(await listedIds(harness, { domain: 'is.example' })).toEqual([])
})

test('an update without a change writes no history in any status, even with the stored past end', async () => {
  const plan = await givenPlan(harness)
  for (const status of ['active', 'suspended', 'revoked', 'retired', 'downgraded', 'expired'] as const) {
    const licence = await givenLicenceIn(harness, status, plan.id)
    const past = daysAgo(1)
    await harness.sql`update licences set expires_on = ${past} where id = ${licence.id}`
    const before = await history(harness, licence)
    await update(licence, { externalRef: licence.externalRef, restrictions: {}, end: past })
    await update(licence, {})
    expect(await history(harness, licence)).toEqual(before)
    expect(await statusOf(harness, licence)).toBe(status)
  }
})

test('a past end, a reference that breaks the rules, and any change of a revoked or retired licence are refused', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: plan.id })
  const pointers = async (fields: Fields) => (await refusal(update(licence, fields))).errors[0]?.pointer
  expect(await pointers({ end: daysAgo(1) })).toBe('/expires_on')
  expect(await pointers({ externalRef: '' })).toBe('/external_ref')
  expect(await pointers({ restrictions: { maxSeats: 0 } })).toBe('/restrictions/max_seats')
  const revoked = await givenLicenceIn(harness, 'revoked', plan.id)
  const retired = await givenLicenceIn(harness, 'retired', plan.id)
  expect(await refusal(update(revoked, { externalRef: 'x' }))).toMatchObject({
    code: 'conflict',
    members: { current: 'revoked', allowed: ['retire'] },
  })
  expect(await refusal(update(retired, { externalRef: 'x' }))).toMatchObject({
    code: 'conflict',
    members: { current: 'retired', allowed: [] },
  })
  const other = harness.licensing.updateLicence({ ...requestFor(licence, {}), accountId: 'acct_other' })
  expect(await refusal(other)).toMatchObject({ code: 'not_found' })
})

test('a licence that was suspended for failed payments when its subscription was cancelled is suspended again with a later end, without an event', async () => {
  const plan = await givenPlan(harness)
  const bought = await buy(harness, { planId: plan.id, orderedAt: daysAgo(30), endsAt: inDays(60) })
  await apply(harness, bought, { kind: 'payment_failed' }, daysAgo(3))
  await apply(harness, bought, { kind: 'cancelled' }, daysAgo(2))
  const sent = await events(harness, bought.licence)
  const returned = { status: 'suspended', statusReason: 'payment_failed' }
  expect(await update(bought.licence, { end: inDays(60) })).toMatchObject(returned)
  expect((await history(harness, bought.licence)).at(-1)).toMatchObject({
    type: 'changed',
    from: 'expired',
    to: 'suspended',
  })
  expect(await events(harness, bought.licence)).toEqual(sent)
  const renewed = { kind: 'renewed', endsAt: timestampFromDate(inDays(90)) } as const
  expect(await apply(harness, bought, renewed, daysAgo(1))).toMatchObject({ status: 'active' })
})

test('failed payments after the end of a licence do not suspend it when the vendor gives it a later end', async () => {
  const plan = await givenPlan(harness)
  const bought = await buy(harness, { planId: plan.id, orderedAt: daysAgo(30), endsAt: daysAgo(9) })
  await sweepExpiries(harness.deps)
  await apply(harness, bought, { kind: 'payment_failed' }, daysAgo(3))
  expect(await update(bought.licence, { end: inDays(60) })).toMatchObject({ status: 'active' })
  const stopped = { kind: 'renewal_stopped' } as const
  expect(await apply(harness, bought, stopped, daysAgo(1))).toMatchObject({ status: 'active' })
})

test('a partial refund after the end, but before the sweep, downgrades the licence with an event when it gets a later end', async () => {
  const plan = await givenPlan(harness)
  const bought = await buy(harness, { planId: plan.id, orderedAt: daysAgo(30), endsAt: daysAgo(9) })
  await apply(harness, bought, { kind: 'partially_refunded' }, daysAgo(3))
  expect(await statusOf(harness, bought.licence)).toBe('active')
  expect(await update(bought.licence, { end: inDays(60) })).toMatchObject({ status: 'downgraded' })
  const types = (await events(harness, bought.licence)).map(({ type }) => type)
  expect(types).toEqual(['licence.created', 'licence.downgraded'])
})

test('the new end applies to the purchase that governs the licence, and later renewals extend it', async () => {
  const plan = await givenPlan(harness)
  const bought = await buy(harness, { planId: plan.id, orderedAt: daysAgo(30), endsAt: inDays(60) })
  await update(bought.licence, { end: inDays(10) })
  const renewed = async (days: number) => {
    const value = { endsAt: timestampFromDate(inDays(days)) }
    const { expiresOn } = await apply(harness, bought, { kind: 'renewed', ...value }, daysAgo(1))
    return Math.round((timestampDate(expiresOn!).getTime() - Date.now()) / 86_400_000)
  }
  expect(await renewed(5)).toBe(10)
  expect(await renewed(40)).toBe(40)
})
