import { timestampDate } from '@bufbuild/protobuf/wkt'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sweepExpiries } from '../sweeps/sweep-expiries.ts'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import {
  activeOn,
  archive,
  events,
  eventTypes,
  givenPlan,
  history,
  refusal,
  restore,
  statusOf,
  verbOn,
} from '../../test/makers.ts'
import { apply, bought, buy, daysAgo, happen, inDays, kindOf, renew, unique } from '../../test/purchases.ts'
import type { EffectName } from '../../test/purchases.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

test('a renewal moves the expiry once for each invoice and sends no event', async () => {
  const plan = await givenPlan(harness)
  const licence = await bought(harness, plan.id, inDays(30))
  const to = inDays(60)
  const cause = unique('in')
  for (const _ of ['first', 'again']) {
    expect(timestampDate((await renew(harness, licence, to, cause)).expiresOn!)).toEqual(to)
  }
  expect(timestampDate((await renew(harness, licence, inDays(45))).expiresOn!)).toEqual(to)
  expect(await eventTypes(harness, licence)).toEqual(['licence.created'])
  expect((await history(harness, licence)).slice(1)).toEqual([
    { type: 'renewed', from: 'active', to: 'active', actor: 'processor', cause },
  ])
})

test('a renewal reactivates a licence that failed payments suspended, and no other suspended licence', async () => {
  const plan = await givenPlan(harness)
  const failed = await bought(harness, plan.id, inDays(30))
  expect(await happen(harness, failed, 'failed payments')).toMatchObject({
    status: 'suspended',
    statusReason: 'payment_failed',
  })
  expect(await activeOn(harness, plan)).toBe(0n)
  expect(await renew(harness, failed, inDays(60))).toMatchObject({ status: 'active' })
  expect(await activeOn(harness, plan)).toBe(1n)
  expect((await events(harness, failed)).slice(1)).toEqual([
    {
      type: 'licence.suspended',
      object: { licence_id: failed.id, status: 'suspended', reason: 'payment_failed' },
      previous: null,
    },
    { type: 'licence.reactivated', object: { licence_id: failed.id, status: 'active' }, previous: null },
  ])
  const manual = await bought(harness, plan.id, inDays(30))
  await harness.licensing.suspendLicence(verbOn(harness, manual))
  expect(await renew(harness, manual, inDays(60))).toMatchObject({
    status: 'suspended',
    statusReason: 'manual',
  })
})

test('a renewal never makes a licence active on a retired plan', async () => {
  const plan = await givenPlan(harness)
  const licence = await bought(harness, plan.id, inDays(30))
  await happen(harness, licence, 'failed payments')
  await archive(harness, plan)
  const to = inDays(60)
  const renewed = await renew(harness, licence, to)
  expect(renewed).toMatchObject({ status: 'suspended', statusReason: 'plan_archived' })
  expect(timestampDate(renewed.expiresOn!)).toEqual(to)
  expect(await eventTypes(harness, licence)).toEqual(['licence.created', 'licence.suspended'])
})

test('an invoice that is paid after its period’s end reactivates what the sweep expired, but not a canceled subscription', async () => {
  const plan = await givenPlan(harness)
  const [late, cancelled] = [
    await bought(harness, plan.id, inDays(-1)),
    await bought(harness, plan.id, inDays(-1)),
  ]
  await sweepExpiries(harness.deps)
  expect(await statusOf(harness, late)).toBe('expired')
  await happen(harness, cancelled, 'a cancelled subscription')
  expect(await renew(harness, late, inDays(30))).toMatchObject({ status: 'active' })
  expect(await renew(harness, cancelled, inDays(30))).toMatchObject({ status: 'expired' })
  expect(await eventTypes(harness, late)).toEqual([
    'licence.created',
    'licence.expired',
    'licence.reactivated',
  ])
  expect(await activeOn(harness, plan)).toBe(1n)
})

const effectNames: EffectName[] = [
  'failed payments',
  'an inquiry',
  'an inquiry that closes',
  'a full refund',
  'a partial refund',
  'a cancelled subscription',
]
test.each(effectNames)('%s has an effect once for each cause', async (name) => {
  const plan = await givenPlan(harness)
  const licence = await bought(harness, plan.id)
  const before = name === 'an inquiry that closes' ? await happen(harness, licence, 'an inquiry') : licence
  const cause = unique('cause')
  const first = await happen(harness, licence, name, cause)
  expect(first.status).not.toBe(before.status)
  const seen = [await events(harness, licence), await history(harness, licence)]
  expect(await happen(harness, licence, name, cause)).toEqual(first)
  expect([await events(harness, licence), await history(harness, licence)]).toEqual(seen)
})

test('an effect that changed nothing is not applied later', async () => {
  const plan = await givenPlan(harness)
  const licence = await bought(harness, plan.id)
  await harness.licensing.suspendLicence(verbOn(harness, licence))
  await happen(harness, licence, 'failed payments', 'sub')
  await harness.licensing.reactivateLicence(verbOn(harness, licence))
  expect(await happen(harness, licence, 'failed payments', 'sub')).toMatchObject({ status: 'active' })
})

test('a reactivation counts as later than all known effects, even if the processor’s clock is ahead', async () => {
  const plan = await givenPlan(harness)
  const first = await buy(harness, { planId: plan.id, orderedAt: daysAgo(1) })
  const { licence } = first
  const ahead = Date.now() + 60_000
  const happens = (name: EffectName, afterMs: number) =>
    apply(harness, first, kindOf(name), new Date(ahead + afterMs))
  expect(await happens('an inquiry', 0)).toMatchObject({ statusReason: 'dispute_inquiry' })
  await harness.licensing.reactivateLicence(verbOn(harness, licence))
  expect(await happens('failed payments', 1_000)).toMatchObject({ statusReason: 'payment_failed' })
})

test('an inquiry suspends, and a closed inquiry reactivates the licence that it suspended', async () => {
  const plan = await givenPlan(harness)
  const licence = await bought(harness, plan.id)
  expect(await happen(harness, licence, 'an inquiry')).toMatchObject({ statusReason: 'dispute_inquiry' })
  expect(await happen(harness, licence, 'an inquiry that closes')).toMatchObject({ status: 'active' })
  expect(await eventTypes(harness, licence)).toEqual([
    'licence.created',
    'licence.suspended',
    'licence.reactivated',
  ])
  expect(await activeOn(harness, plan)).toBe(1n)
})

test.each(['manual', 'payment_failed'])(
  'an inquiry that closes reactivates no licence suspended for %s',
  async (reason) => {
    const plan = await givenPlan(harness)
    const licence = await bought(harness, plan.id)
    if (reason === 'manual') await harness.licensing.suspendLicence(verbOn(harness, licence))
    else await happen(harness, licence, 'failed payments')
    expect(await happen(harness, licence, 'an inquiry that closes')).toMatchObject({
      status: 'suspended',
      statusReason: reason,
    })
  },
)

test('an inquiry that closes reactivates nothing on a retired plan: the archive keeps it suspended, and the vendor reactivates it after a restore', async () => {
  const plan = await givenPlan(harness)
  const licence = await bought(harness, plan.id)
  await happen(harness, licence, 'an inquiry')
  await archive(harness, plan)
  const archived = { status: 'suspended', statusReason: 'plan_archived' }
  expect(await happen(harness, licence, 'an inquiry that closes')).toMatchObject(archived)
  expect(await activeOn(harness, plan)).toBe(0n)
  expect(await eventTypes(harness, licence)).toEqual(['licence.created', 'licence.suspended'])
  await restore(harness, plan)
  await happen(harness, licence, 'failed payments')
  expect(await happen(harness, licence, 'an inquiry that closes')).toMatchObject(archived)
  expect(await harness.licensing.reactivateLicence(verbOn(harness, licence))).toMatchObject({
    status: 'active',
  })
})

test('a second partial refund changes nothing; the refund that completes the amount revokes', async () => {
  const plan = await givenPlan(harness)
  const licence = await bought(harness, plan.id)
  await happen(harness, licence, 'a partial refund')
  expect(await happen(harness, licence, 'a partial refund')).toMatchObject({ status: 'downgraded' })
  expect(await happen(harness, licence, 'a full refund')).toMatchObject({ status: 'revoked' })
  expect(await happen(harness, licence, 'a full refund')).toMatchObject({ status: 'revoked' })
  expect(await eventTypes(harness, licence)).toEqual([
    'licence.created',
    'licence.downgraded',
    'licence.revoked',
  ])
})

test('an effect on a purchase of another account is refused', async () => {
  const plan = await givenPlan(harness)
  const paid = await buy(harness, { planId: plan.id, orderedAt: daysAgo(2) })
  const otherAccount = { ...harness, accountId: 'acct_other' }
  for (const name of effectNames) {
    const call = apply(otherAccount, paid, kindOf(name), daysAgo(1))
    expect(await refusal(call)).toMatchObject({ code: 'not_found' })
  }
  expect(await statusOf(harness, paid.licence)).toBe('active')
})
