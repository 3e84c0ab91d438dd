import { create } from '@bufbuild/protobuf'
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Licence } from '@licensing/proto/licensing'
import { PurchaseEffectSchema } from '@licensing/proto/purchases'
import { eventually } from '@licensing/test-support/poll'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { callOf, givenActivation } from '../../test/products.ts'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import {
  activeOn,
  archive,
  events,
  givenLicence,
  givenPlan,
  history,
  refusal,
  statusOf,
  verbOn,
} from '../../test/makers.ts'
import { sweepExpiries } from '../sweeps/sweep-expiries.ts'
import { apply, buy, daysAgo, inDays, refusalOf, unique } from '../../test/purchases.ts'
import type { Kind } from '../../test/purchases.ts'
import { lockCustomers } from './purchase-queries.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

const shown = async (licence: { id: string }) => {
  const { licence: now } = await harness.licensing.getLicence(verbOn(harness, licence))
  return { plan: now!.planId, status: now!.status, end: endOf(now!) }
}
const endOf = ({ expiresOn }: Licence) => (expiresOn ? timestampDate(expiresOn) : null)
const newEvents = async (licence: { id: string }, since: number) =>
  (await events(harness, licence)).slice(since).map(({ type, object, previous }) => {
    return { type, ...object, ...(previous && { previous }) }
  })

/** A customer who bought one plan and later another, and what each of them is. */
async function upgraded(ends: { first?: Date; second?: Date } = {}) {
  const [small, large] = [await givenPlan(harness), await givenPlan(harness)]
  const externalRef = unique('buyer')
  const first = await buy(harness, {
    planId: small.id,
    externalRef,
    orderedAt: daysAgo(9),
    ...(ends.first && { endsAt: ends.first }),
  })
  const second = await buy(harness, {
    planId: large.id,
    externalRef,
    orderedAt: daysAgo(5),
    ...(ends.second && { endsAt: ends.second }),
  })
  expect(second.licence.id).toBe(first.licence.id)
  return { small, large, first, second, licence: first.licence }
}

test('a full refund of the latest purchase lets the earlier one that stands take over: plan, snapshot and end', async () => {
  const end = inDays(20)
  const { small, large, second, licence } = await upgraded({ first: end })
  const before = (await events(harness, licence)).length
  await apply(harness, second, { case: 'givenBack', value: { chargedBack: false } }, daysAgo(1))
  expect(await shown(licence)).toEqual({ plan: small.id, status: 'active', end })
  expect(await newEvents(licence, before)).toEqual([
    {
      type: 'licence.plan_changed',
      licence_id: licence.id,
      plan_id: small.id,
      status: 'active',
      previous: { plan_id: large.id },
    },
  ])
  expect([await activeOn(harness, small), await activeOn(harness, large)]).toEqual([1n, 0n])
})

test('a refund, chargeback, cancellation, failure, inquiry, partial refund or renewal of an earlier purchase changes nothing', async () => {
  const kinds: Kind[] = [
    { case: 'givenBack', value: { chargedBack: false } },
    { case: 'givenBack', value: { chargedBack: true } },
    { case: 'cancelled', value: {} },
    { case: 'paymentsFailed', value: {} },
    { case: 'inquiryOpened', value: {} },
    { case: 'inquiryClosed', value: {} },
    { case: 'partlyRefunded', value: {} },
    { case: 'renewed', value: { endsAt: timestampFromDate(inDays(300)) } },
  ]
  for (const kind of kinds) {
    const { first, licence } = await upgraded({ first: inDays(10) })
    const before = [await shown(licence), await events(harness, licence), await history(harness, licence)]
    await apply(harness, first, kind, daysAgo(1))
    expect([await shown(licence), await events(harness, licence), await history(harness, licence)]).toEqual(
      before,
    )
  }
})

test('with none standing it is revoked after a refund or chargeback, and expired after a cancellation', async () => {
  for (const [kind, status] of [
    [{ case: 'givenBack', value: { chargedBack: false } }, 'revoked'],
    [{ case: 'givenBack', value: { chargedBack: true } }, 'revoked'],
    [{ case: 'cancelled', value: {} }, 'expired'],
  ] as const) {
    const { first, second, licence } = await upgraded()
    await apply(harness, first, { case: 'cancelled', value: {} }, daysAgo(2))
    await apply(harness, second, kind, daysAgo(1))
    expect(await statusOf(harness, licence)).toBe(status)
  }
})

test('a cancellation that comes after a partial refund of what had ended by time leaves the licence expired', async () => {
  const { id: planId } = await givenPlan(harness)
  const purchase = { planId, externalRef: unique('buyer'), orderedAt: daysAgo(60), endsAt: daysAgo(30) }
  const bought = await buy(harness, purchase)
  await apply(harness, bought, { case: 'partlyRefunded', value: {} }, daysAgo(2))
  expect(await statusOf(harness, bought.licence)).toBe('downgraded')
  await apply(harness, bought, { case: 'cancelled', value: {} }, daysAgo(1))
  expect(await statusOf(harness, bought.licence)).toBe('expired')
})

test('what a licence was issued with is its first purchase, and takes over', async () => {
  const [issuedOn, paid] = [await givenPlan(harness), await givenPlan(harness)]
  const externalRef = unique('buyer')
  const end = inDays(30)
  const licence = await givenLicence(harness, { planId: issuedOn.id, externalRef, expiresOn: end })
  const bought = await buy(harness, { planId: paid.id, externalRef, orderedAt: daysAgo(3) })
  expect(bought).toMatchObject({ created: false, licence: { id: licence.id, planId: paid.id } })
  await apply(harness, bought, { case: 'givenBack', value: { chargedBack: false } }, daysAgo(1))
  expect(await shown(licence)).toEqual({ plan: issuedOn.id, status: 'active', end })
})

test('a licence that was issued until a time ends revoked after a purchase and its refund in that second, swept in between or not', async () => {
  for (const swept of [true, false]) {
    const { id: planId } = await givenPlan(harness)
    const externalRef = unique('buyer')
    const expiresOn = new Date(Date.now() + 50)
    const licence = await givenLicence(harness, { planId, externalRef, expiresOn })
    await eventually(() => expect(Date.now()).toBeGreaterThan(expiresOn.getTime() + 5))
    if (swept) await sweepExpiries(harness.deps)
    expect(await statusOf(harness, licence)).toBe(swept ? 'expired' : 'active')
    // As the processor reports it.
    const second = new Date(Math.floor(expiresOn.getTime() / 1000) * 1000)
    const bought = await buy(harness, { planId, externalRef, orderedAt: second })
    expect(bought.licence).toMatchObject({ id: licence.id, status: 'active' })
    await apply(harness, bought, { case: 'givenBack', value: { chargedBack: false } }, second)
    expect(await statusOf(harness, licence)).toBe('revoked')
  }
})

test('a takeover on the same plan reactivates what had been downgraded or suspended by payments, and says so', async () => {
  for (const lead of ['partlyRefunded', 'paymentsFailed', 'inquiryOpened'] as const) {
    const plan = await givenPlan(harness)
    const externalRef = unique('buyer')
    const first = await buy(harness, { planId: plan.id, externalRef, orderedAt: daysAgo(9) })
    const second = await buy(harness, { planId: plan.id, externalRef, orderedAt: daysAgo(8) })
    await apply(harness, second, { case: lead, value: {} }, daysAgo(4))
    const before = (await events(harness, first.licence)).length
    await apply(harness, second, { case: 'givenBack', value: { chargedBack: true } }, daysAgo(3))
    expect(await newEvents(first.licence, before)).toEqual([
      { type: 'licence.reactivated', licence_id: first.licence.id, status: 'active' },
    ])
  }
})

test('a manual suspension outlives a takeover', async () => {
  const { small, second, licence } = await upgraded()
  await harness.licensing.suspendLicence(verbOn(harness, licence))
  await apply(harness, second, { case: 'givenBack', value: { chargedBack: false } }, daysAgo(1))
  expect(await shown(licence)).toMatchObject({ plan: small.id, status: 'suspended' })
})

test('a purchase on a retired plan that takes over leaves the licence suspended for the archive', async () => {
  const { small, second, licence } = await upgraded()
  await archive(harness, small)
  const before = (await events(harness, licence)).length
  await apply(harness, second, { case: 'givenBack', value: { chargedBack: false } }, daysAgo(1))
  expect((await newEvents(licence, before)).map(({ type }) => type)).toEqual([
    'licence.plan_changed',
    'licence.suspended',
  ])
  const detail = await harness.licensing.getLicence(verbOn(harness, licence))
  expect(detail.licence).toMatchObject({ status: 'suspended', statusReason: 'plan_archived' })
  expect(await activeOn(harness, small)).toBe(0n)
})

test('a purchase that has ended before it lands gives the licence back: never active, on a retired plan', async () => {
  for (const lead of ['partlyRefunded', 'paymentsFailed', 'inquiryOpened'] as const) {
    const [plan, past] = [await givenPlan(harness), await givenPlan(harness)]
    const externalRef = unique('buyer')
    const first = await buy(harness, { planId: plan.id, externalRef, orderedAt: daysAgo(9) })
    await apply(harness, first, { case: lead, value: {} }, daysAgo(8))
    await archive(harness, plan)
    const late = { planId: past.id, externalRef, orderedAt: daysAgo(7), endsAt: daysAgo(6) }
    const { licence } = await buy(harness, late)
    expect(licence).toMatchObject({ planId: plan.id, status: 'suspended', statusReason: 'plan_archived' })
  }
})

test('an older purchase that arrives late changes neither plan nor status; its event names the licence’s plan', async () => {
  const [old, current] = [await givenPlan(harness), await givenPlan(harness)]
  const externalRef = unique('buyer')
  const { licence } = await buy(harness, { planId: current.id, externalRef, orderedAt: daysAgo(3) })
  const late = await buy(harness, { planId: old.id, externalRef, orderedAt: daysAgo(30) })
  expect(late).toMatchObject({ created: false, licence: { id: licence.id, planId: current.id } })
  expect((await events(harness, licence)).slice(1)).toEqual([
    {
      type: 'licence.plan_changed',
      object: { licence_id: licence.id, plan_id: current.id, status: 'active' },
      previous: { plan_id: current.id },
    },
  ])
})

test('a subscription’s plan follows its price; to a retired plan it is suspended', async () => {
  const [plan, next, retired] = [await givenPlan(harness), await givenPlan(harness), await givenPlan(harness)]
  await archive(harness, retired)
  const bought = await buy(harness, { planId: plan.id, orderedAt: daysAgo(40), endsAt: inDays(5) })
  const renewed = (planId: string) =>
    ({ case: 'renewed', value: { endsAt: timestampFromDate(inDays(30)), planId } }) as const
  await apply(harness, bought, renewed(next.id), daysAgo(2))
  expect(await shown(bought.licence)).toEqual({ plan: next.id, status: 'active', end: expect.any(Date) })
  expect((await events(harness, bought.licence)).at(-1)).toMatchObject({
    type: 'licence.plan_changed',
    previous: { plan_id: plan.id },
  })
  // Known late, an earlier invoice takes it nowhere.
  await apply(harness, bought, renewed(plan.id), daysAgo(3))
  expect(await shown(bought.licence)).toMatchObject({ plan: next.id })
  await apply(harness, bought, renewed(retired.id), daysAgo(1))
  expect(await shown(bought.licence)).toMatchObject({ plan: retired.id, status: 'suspended' })
})

test('the sweep never expires a licence that has an earlier purchase standing: that one takes over', async () => {
  const { small, second, licence } = await upgraded({ second: daysAgo(1) })
  expect(second.licence.status).toBe('active')
  await sweepExpiries(harness.deps)
  expect(await shown(licence)).toEqual({ plan: small.id, status: 'active', end: null })
  const types = (await events(harness, licence)).map(({ type }) => type)
  expect(types).not.toContain('licence.expired')
  expect(types.at(-1)).toBe('licence.plan_changed')
})

test('between its end and the sweep, activation and refresh run on the earlier purchase that stands', async () => {
  const { small, licence } = await upgraded({ second: inDays(1) })
  const grant = await givenActivation(harness.products, licence)
  await harness.sql`update licences set expires_on = ${daysAgo(1)} where id = ${licence.id}`
  await harness.sql`
    update purchases set ends_at = ${daysAgo(1)}, landed_ends_at = ${daysAgo(1)}
    where licence_id = ${licence.id} and plan_id <> ${small.id}`
  const refreshed = await harness.products.refreshActivation(callOf(grant))
  expect(decodeJwt(refreshed.token)['plan_id']).toBe(small.id)

  const other = await upgraded({ second: daysAgo(1) })
  const activated = await givenActivation(harness.products, other.licence)
  expect(decodeJwt(activated.token)['plan_id']).toBe(other.small.id)
  const alone = await buy(harness, { planId: small.id, orderedAt: daysAgo(9), endsAt: daysAgo(1) })
  expect(await refusal(givenActivation(harness.products, alone.licence))).toMatchObject({
    code: 'licence_refused',
    members: { reason: 'expired' },
  })
})

test('each effect comes once for its purchase, kind and cause, and answers the same again', async () => {
  const plan = await givenPlan(harness)
  const bought = await buy(harness, { planId: plan.id, orderedAt: daysAgo(40), endsAt: inDays(5) })
  const renewal = { case: 'renewed', value: { endsAt: timestampFromDate(inDays(35)) } } as const
  const first = await apply(harness, bought, renewal, daysAgo(1), 'in_1')
  const seen = await history(harness, bought.licence)
  expect(await apply(harness, bought, renewal, daysAgo(1), 'in_1')).toEqual(first)
  expect(await history(harness, bought.licence)).toEqual(seen)
  expect(await buy(harness, { ...bought.bought })).toMatchObject({
    created: true,
    licence: { id: bought.licence.id },
  })
})

test('what an earlier release provisioned is a purchase once it has been sent; its licence stays as it is', async () => {
  const end = inDays(20)
  const { small, large, first, second, licence } = await upgraded({ first: end })
  const { purchaseRef } = first.bought
  await harness.sql`delete from purchases where purchase_ref = ${purchaseRef}`
  const before = [await shown(licence), await events(harness, licence), await history(harness, licence)]
  expect(before[0]).toMatchObject({ plan: large.id })
  expect(await buy(harness, first.bought)).toMatchObject({ created: true, licence: { id: licence.id } })
  expect([await shown(licence), await events(harness, licence), await history(harness, licence)]).toEqual(
    before,
  )
  await apply(harness, second, { case: 'givenBack', value: { chargedBack: false } }, daysAgo(1))
  expect(await shown(licence)).toEqual({ plan: small.id, status: 'active', end })
})

test('a licence that an earlier release provisioned has been issued with nothing', async () => {
  const plan = await givenPlan(harness)
  const bought = await buy(harness, { planId: plan.id, orderedAt: daysAgo(9) })
  await harness.sql`delete from purchases where licence_id = ${bought.licence.id}`
  await buy(harness, bought.bought)
  await apply(harness, bought, { case: 'givenBack', value: { chargedBack: false } }, daysAgo(1))
  expect(await statusOf(harness, bought.licence)).toBe('revoked')
})

test('an effect that is refused stops later ones of its own purchase, and no others', async () => {
  const [plan, retired] = [await givenPlan(harness), await givenPlan(harness)]
  await archive(harness, retired)
  const [refused, fine] = [unique('cs'), unique('cs')]
  const about = (purchaseRef: string) => ({
    accountId: harness.accountId,
    applicationId: harness.applicationId,
    purchaseRef,
    at: timestampFromDate(daysAgo(1)),
    orderedAt: timestampFromDate(daysAgo(1)),
  })
  const effect = (purchaseRef: string, cause: string, kind: Kind) =>
    create(PurchaseEffectSchema, { ...about(purchaseRef), cause, kind })
  const landed = (planId: string): Kind => {
    return { case: 'landed', value: { planId, externalRef: unique('buyer') } }
  }
  const cancelled: Kind = { case: 'cancelled', value: {} }
  const { results } = await harness.purchases.applyPurchaseEffects({
    effects: [
      effect(refused, 'a', landed(retired.id)),
      effect(fine, 'b', landed(plan.id)),
      effect(refused, 'c', cancelled),
      effect(fine, 'd', cancelled),
      effect('cs_unknown', 'e', cancelled),
      effect(fine, '', cancelled),
    ],
  })
  expect(results.map(refusalOf)).toEqual([
    'plan_archived',
    undefined,
    'plan_archived',
    undefined,
    'not_found',
    'validation_failed',
  ])
})

test('a call that nobody waits for any more provisions nothing, however late it gets its turn', async () => {
  const plan = await givenPlan(harness)
  const { accountId, applicationId } = harness
  const customer = { accountId, applicationId, externalRef: unique('buyer') }
  const message = create(PurchaseEffectSchema, {
    accountId,
    applicationId,
    purchaseRef: unique('cs'),
    cause: 'late',
    kind: { case: 'landed', value: { planId: plan.id, externalRef: customer.externalRef } },
    at: timestampFromDate(daysAgo(1)),
    orderedAt: timestampFromDate(daysAgo(1)),
  })
  const send = (timeoutMs: number) =>
    harness.purchases.applyPurchaseEffects({ effects: [message, message] }, { timeoutMs })
  const waiting = async () => {
    const [row] = await harness.sql<{ waiting: number }[]>`
      select count(*)::int as waiting from pg_locks where locktype = 'advisory' and not granted
        and database = (select oid from pg_database where datname = current_database())`
    return row!.waiting
  }
  await harness.sql.begin(async (tx) => {
    await lockCustomers(tx, [customer])
    const given = send(500)
    await eventually(async () => expect(await waiting()).toBe(1))
    await expect(given).rejects.toMatchObject({ code: 'unavailable' })
    expect(await waiting()).toBe(1)
  })
  // What is done under the lock from now on comes after the late call.
  await harness.sql.begin((tx) => lockCustomers(tx, [customer]))
  const licences = await harness.sql`
    select id from licences where application_id = ${applicationId} and external_ref = ${customer.externalRef}`
  expect(licences).toEqual([])
  await archive(harness, plan)
  const { results } = await send(5_000)
  expect(results.map(refusalOf)).toEqual(['plan_archived', 'plan_archived'])
})
