import { create } from '@bufbuild/protobuf'
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import { PurchaseEffectSchema } from '@licensing/proto/purchases'
import { expect, test } from 'vitest'
import { forFile, newVendor, planCopy, startHarness } from '../../test/harness.ts'
import {
  activeOn,
  archive,
  events,
  givenLicence,
  givenPlan,
  history,
  refusal,
  restore,
  verbOn,
  detailOf,
  eventTypes,
  statusOf,
} from '../../test/makers.ts'
import {
  inDays,
  provision,
  unique,
  apply,
  bought,
  buy,
  daysAgo,
  happen,
  kindOf,
  refusalOf,
  renew,
  renewal,
} from '../../test/purchases.ts'
import type { Bought, EffectName } from '../../test/purchases.ts'

const harness = await forFile(startHarness)

test('a payment of a new customer creates a licence; the same payment again returns it', async () => {
  const plan = await givenPlan(harness)
  const payment = {
    planId: plan.id,
    externalRef: unique('buyer'),
    paymentRef: unique('cs'),
    expiresOn: inDays(30),
  }
  const first = await provision(harness, payment)
  expect(first).toMatchObject({ created: true, licence: { status: 'active', planId: plan.id } })
  expect(timestampDate(first.licence.expiresOn!)).toEqual(payment.expiresOn)
  await archive(harness, plan)
  const again = await provision(harness, payment)
  expect(again).toMatchObject({ created: true, licence: { id: first.licence.id, status: 'suspended' } })
  expect((await events(harness, first.licence))[0]).toEqual({
    type: 'licence.created',
    object: { licence_id: first.licence.id, plan_id: plan.id, status: 'active' },
    previous: null,
  })
  expect((await history(harness, first.licence))[0]).toEqual({
    type: 'created',
    from: undefined,
    to: 'active',
    actor: 'processor',
    cause: payment.paymentRef,
  })
})

test('a payment of a customer who holds a licence moves it to the plan, with its snapshot and expiry', async () => {
  const entitlements = (value: string) => [{ key: 'seats', kind: 'limit', value, default: '0' }]
  const small = await givenPlan(harness, { entitlements: entitlements('1') })
  const large = await givenPlan(harness, { entitlements: entitlements('9') })
  const externalRef = unique('buyer')
  const { licence } = await provision(harness, { planId: small.id, externalRef, expiresOn: inDays(30) })
  const payment = { planId: large.id, externalRef, paymentRef: unique('cs') }
  for (const _ of ['first', 'again']) {
    expect(await provision(harness, payment)).toMatchObject({
      created: false,
      licence: { id: licence.id, key: licence.key, planId: large.id, status: 'active' },
    })
  }
  const detail = await detailOf(harness, licence)
  expect(detail.entitlements).toMatchObject([{ key: 'seats', value: '9' }])
  expect(detail.licence!.expiresOn).toBeUndefined()
  expect((await events(harness, licence)).slice(1)).toEqual([
    {
      type: 'licence.plan_changed',
      object: { licence_id: licence.id, plan_id: large.id, status: 'active' },
      previous: { plan_id: small.id },
    },
  ])
  expect(await history(harness, licence)).toMatchObject([
    { type: 'created' },
    { type: 'plan_changed', from: 'active', to: 'active', actor: 'processor', cause: payment.paymentRef },
  ])
  expect([await activeOn(harness, small), await activeOn(harness, large)]).toEqual([0n, 1n])
})

test('if a customer has several licences, a payment changes the newest that is not revoked or retired', async () => {
  const plan = await givenPlan(harness)
  const externalRef = unique('buyer')
  const ids: string[] = []
  for (const end of ['keep', 'keep', 'revoke', 'retire']) {
    const licence = await givenLicence(harness, { planId: plan.id, externalRef })
    ids.push(licence.id)
    if (end === 'revoke') await harness.licensing.revokeLicence(verbOn(harness, licence))
    if (end === 'retire') await harness.licensing.retireLicence(verbOn(harness, licence))
  }
  expect((await provision(harness, { planId: plan.id, externalRef })).licence.id).toBe(ids[1])
  await harness.licensing.revokeLicence(verbOn(harness, { id: ids[1]! }))
  await harness.licensing.revokeLicence(verbOn(harness, { id: ids[0]! }))
  expect(await provision(harness, { planId: plan.id, externalRef })).toMatchObject({ created: true })
})

test('a payment for a retired or unknown plan is refused without a trace, and provisions after the cause was removed', async () => {
  const plan = await givenPlan(harness)
  await archive(harness, plan)
  const payment = { planId: plan.id, externalRef: unique('buyer'), paymentRef: unique('cs') }
  expect(await refusal(provision(harness, payment))).toMatchObject({ code: 'plan_archived' })
  expect((await refusal(provision(harness, { ...payment, planId: planCopy(harness).id }))).code).toBe(
    'validation_failed',
  )
  await restore(harness, plan)
  expect(await provision(harness, payment)).toMatchObject({ created: true })
})

test('a plan without a copy is fetched; while catalog is unavailable the payment can be tried again', async () => {
  const plan = planCopy(harness)
  harness.catalog.copies.set(plan.id, plan)
  const payment = { planId: plan.id, externalRef: unique('buyer'), paymentRef: unique('cs') }
  harness.catalog.unavailable = true
  try {
    expect(await refusal(provision(harness, payment))).toMatchObject({ code: 'unavailable' })
  } finally {
    harness.catalog.unavailable = false
  }
  expect(await provision(harness, payment)).toMatchObject({ created: true })
})

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

test('renewals that are reported late, each for a period that is over, neither expire nor reactivate the licence', async () => {
  const plan = await givenPlan(harness)
  const first = await buy(harness, { planId: plan.id, orderedAt: daysAgo(90), endsAt: daysAgo(60) })
  for (const [at, end] of [
    [60, daysAgo(30)],
    [30, daysAgo(1)],
    [1, inDays(30)],
  ] as const) {
    expect(await apply(harness, first, renewal(end), daysAgo(at))).toMatchObject({ status: 'active' })
  }
  expect(await eventTypes(harness, first.licence)).toEqual(['licence.created'])
  const types = (await history(harness, first.licence)).map(({ type }) => type)
  expect(types).toEqual(['created', 'renewed', 'renewed', 'renewed'])
})

test('a renewal on a retired plan suspends a downgraded licence because of the archive; after a restore the vendor reactivates it', async () => {
  const plan = await givenPlan(harness)
  const licence = await bought(harness, plan.id)
  await happen(harness, licence, 'a partial refund')
  await archive(harness, plan)
  const archived = { status: 'suspended', statusReason: 'plan_archived' }
  expect(await renew(harness, licence, inDays(60))).toMatchObject(archived)
  expect((await eventTypes(harness, licence)).at(-1)).toBe('licence.suspended')
  await restore(harness, plan)
  const reactivated = harness.licensing.reactivateLicence(verbOn(harness, licence))
  expect(await reactivated).toMatchObject({ status: 'active' })
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

const effectOn = ({ bought: { purchaseRef, orderedAt } }: Bought, accountId = harness.accountId) =>
  create(PurchaseEffectSchema, {
    accountId,
    applicationId: harness.applicationId,
    purchaseRef,
    kind: 'payment_failed',
    cause: unique('cause'),
    at: timestampFromDate(daysAgo(1)),
    orderedAt: timestampFromDate(orderedAt),
  })

test('a licence that another transaction has locked delays neither other accounts nor other purchases of its account', async () => {
  const plan = await givenPlan(harness)
  const vendor = newVendor(harness)
  const other = await buy(vendor, { planId: (await givenPlan(vendor)).id, orderedAt: daysAgo(2) })
  const own: Bought[] = []
  while (own.length < 40) own.push(await buy(harness, { planId: plan.id, orderedAt: daysAgo(2) }))
  const [first] = own
  const effects = [...own, first!].map((bought) => effectOn(bought))
  effects.push({ ...effectOn(other, vendor.accountId), applicationId: vendor.applicationId })
  await harness.sql.begin(async (tx) => {
    await tx`select from licences where id = ${first!.licence.id} for update`
    const { results } = await harness.purchases.applyPurchaseEffects({ effects }, { timeoutMs: 5_000 })
    const refusals = results.map(refusalOf)
    expect([refusals[0], refusals[40]]).toEqual(['unavailable', 'unavailable'])
    expect([...refusals.slice(1, 40), refusals[41]]).toEqual(Array.from({ length: 40 }, () => undefined))
  })
  expect((await harness.purchases.applyPurchaseEffects({ effects })).results.map(refusalOf)).toEqual(
    Array.from({ length: 42 }, () => undefined),
  )
  expect(await statusOf(harness, first!.licence)).toBe('suspended')
})

test('an effect that the database cannot store is refused, and fails no other one', async () => {
  const plan = await givenPlan(harness)
  const [failing, fine] = [
    await buy(harness, { planId: plan.id, orderedAt: daysAgo(2) }),
    await buy(harness, { planId: plan.id, orderedAt: daysAgo(2) }),
  ]
  await harness.sql`
    alter table purchase_effects add constraint refuses check (purchase_ref <> ${harness.sql.unsafe(`'${failing.bought.purchaseRef}'`)})`
  try {
    const effects = [fine, failing, fine].map((bought) => effectOn(bought))
    const { results } = await harness.purchases.applyPurchaseEffects({ effects })
    expect(results.map(refusalOf)).toEqual([undefined, 'internal', undefined])
  } finally {
    await harness.sql`alter table purchase_effects drop constraint refuses`
  }
  expect(await statusOf(harness, fine.licence)).toBe('suspended')
})
