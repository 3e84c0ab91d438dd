import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Licence } from '@licensing/proto/licensing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sweepExpiries } from '../sweeps/sweep-expiries.ts'
import { startHarness } from '../testing/harness.ts'
import type { Harness } from '../testing/harness.ts'
import {
  activeOn,
  archive,
  causeOn,
  events,
  eventTypes,
  givenLicenceIn,
  givenPlan,
  history,
  refusal,
  statusOf,
  verbOn,
} from '../testing/makers.ts'
import { unique, bought, inDays, renew, suspendFor } from '../testing/payments.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

test('a renewal moves the expiry, once for each invoice, and no event tells of it', async () => {
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

test('after failed payments a renewal reactivates, and only then', async () => {
  const plan = await givenPlan(harness)
  const failed = await bought(harness, plan.id, inDays(30))
  expect(await suspendFor(harness, failed, 'payment_failed')).toMatchObject({
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
  await suspendFor(harness, licence, 'payment_failed')
  await archive(harness, plan)
  const to = inDays(60)
  const renewed = await renew(harness, licence, to)
  expect(renewed).toMatchObject({ status: 'suspended', statusReason: 'plan_archived' })
  expect(timestampDate(renewed.expiresOn!)).toEqual(to)
  expect(await eventTypes(harness, licence)).toEqual(['licence.created', 'licence.suspended'])
})

test('an invoice that is paid after the period’s end takes the sweep’s expiry back; a cancellation stands', async () => {
  const plan = await givenPlan(harness)
  const [late, cancelled] = [
    await bought(harness, plan.id, inDays(-1)),
    await bought(harness, plan.id, inDays(-1)),
  ]
  await sweepExpiries(harness.deps)
  expect(await statusOf(harness, late)).toBe('expired')
  await harness.licensing.expireLicence(causeOn(harness, cancelled, 'sub'))
  expect(await renew(harness, late, inDays(30))).toMatchObject({ status: 'active' })
  expect(await renew(harness, cancelled, inDays(30))).toMatchObject({ status: 'expired' })
  expect(await eventTypes(harness, late)).toEqual([
    'licence.created',
    'licence.expired',
    'licence.reactivated',
  ])
  expect(await activeOn(harness, plan)).toBe(1n)
})

type Consequence = 'expire' | 'failed' | 'inquiry' | 'closed' | 'refund' | 'partly'
const draw: Record<Consequence, (licence: { id: string }, cause: string) => Promise<Licence>> = {
  expire: (licence, cause) => harness.licensing.expireLicence(causeOn(harness, licence, cause)),
  failed: (licence, cause) => suspendFor(harness, licence, 'payment_failed', cause),
  inquiry: (licence, cause) => suspendFor(harness, licence, 'dispute_inquiry', cause),
  closed: (licence, cause) => harness.licensing.resumeFromInquiry(causeOn(harness, licence, cause)),
  refund: (licence, cause) => harness.licensing.revokeForRefund(causeOn(harness, licence, cause)),
  partly: (licence, cause) => harness.licensing.downgradeForRefund(causeOn(harness, licence, cause)),
}
test.each(Object.keys(draw) as Consequence[])('%s comes once for each cause', async (name) => {
  const plan = await givenPlan(harness)
  const licence = await bought(harness, plan.id)
  const before = name === 'closed' ? await draw.inquiry(licence, 'dp') : undefined
  const cause = unique('cause')
  const first = await draw[name](licence, cause)
  expect(first.status).not.toBe(before?.status ?? licence.status)
  const seen = [await events(harness, licence), await history(harness, licence)]
  expect(await draw[name](licence, cause)).toEqual(first)
  expect([await events(harness, licence), await history(harness, licence)]).toEqual(seen)
})

test('a cause that found nothing to change does not come back later', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicenceIn(harness, 'suspended', plan.id)
  await draw.failed(licence, 'sub')
  await harness.licensing.reactivateLicence(verbOn(harness, licence))
  expect(await draw.failed(licence, 'sub')).toMatchObject({ status: 'active' })
})

test('an inquiry suspends, and closed in the vendor’s favour it reactivates what it had suspended', async () => {
  const plan = await givenPlan(harness)
  const licence = await bought(harness, plan.id)
  expect(await draw.inquiry(licence, 'dp')).toMatchObject({ statusReason: 'dispute_inquiry' })
  expect(await draw.closed(licence, 'dp')).toMatchObject({ status: 'active' })
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
    else await suspendFor(harness, licence, reason)
    expect(await draw.closed(licence, 'dp')).toMatchObject({ status: 'suspended', statusReason: reason })
  },
)

test('an inquiry that closes reactivates nothing on a retired plan', async () => {
  const plan = await givenPlan(harness)
  const licence = await bought(harness, plan.id)
  await draw.inquiry(licence, 'dp')
  await archive(harness, plan)
  expect(await draw.closed(licence, 'dp')).toMatchObject({ status: 'suspended' })
  expect(await activeOn(harness, plan)).toBe(0n)
})

test('a second partial refund changes nothing; together they end as a full one', async () => {
  const plan = await givenPlan(harness)
  const licence = await bought(harness, plan.id)
  await draw.partly(licence, 'rfd-1')
  expect(await draw.partly(licence, 'rfd-2')).toMatchObject({ status: 'downgraded' })
  expect(await draw.refund(licence, 'rfd-2')).toMatchObject({ status: 'revoked' })
  expect(await draw.refund(licence, 'dispute')).toMatchObject({ status: 'revoked' })
  expect(await eventTypes(harness, licence)).toEqual([
    'licence.created',
    'licence.downgraded',
    'licence.revoked',
  ])
})

test('an unknown licence, one of another account and an unknown reason are refused', async () => {
  const plan = await givenPlan(harness)
  const licence = await bought(harness, plan.id)
  const { licensing } = harness
  const otherTenant = { ...causeOn(harness, licence, 'x'), accountId: 'acct_other' }
  const calls = [
    licensing.revokeForRefund(causeOn(harness, { id: 'lic_none' }, 'x')),
    licensing.revokeForRefund(otherTenant),
    licensing.renewLicence({ ...otherTenant, expiresOn: timestampFromDate(inDays(1)) }),
    licensing.expireLicence(otherTenant),
    licensing.downgradeForRefund(otherTenant),
  ]
  for (const { code } of await Promise.all(calls.map(refusal))) expect(code).toBe('not_found')
  expect(await refusal(suspendFor(harness, licence, 'whim'))).toMatchObject({ code: 'validation_failed' })
  expect(await statusOf(harness, licence)).toBe('active')
})
