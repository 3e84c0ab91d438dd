import { expect } from 'vitest'
import { changePlan, newPlan } from './catalog-stand-in.ts'
import { subscriptionGraceMs } from './harness.ts'
import type { Harness } from './harness.ts'
import { askProcessor, givenSold, licenceOf, scope } from './shop.ts'
import type { Sold } from './shop.ts'
import type { Vendor, VendorOptions } from './vendor.ts'

export const monthly: VendorOptions = { price: { amount: 2980n, currency: 'jpy', mode: 'subscription' } }

export type Subscribed = Sold & { vendor: Vendor; subscription: string }

/** A customer who subscribed to the vendor's plan. */
export async function givenSubscribed(harness: Harness, of?: Vendor): Promise<Subscribed> {
  const vendor = of ?? (await harness.givenVendor(monthly))
  const sold = await givenSold(harness, vendor)
  const [row] = await harness.sql<{ subscription_ref: string }[]>`
    select subscription_ref from checkout_sessions where id = ${sold.session.id}`
  return { ...sold, vendor, subscription: row!.subscription_ref }
}

/** Makes the simulator perform an action on the subscription. */
export function act<Result extends object>(
  { simulator }: Harness,
  { subscription }: Pick<Subscribed, 'subscription'>,
  action: string,
  how: object = {},
): Promise<Result> {
  return simulator.control<Result>(action, { subscription, ...how })
}

/** Kinds of the alerts that the vendor was sent. */
export function alertsOf({ events }: Harness, { accountId }: Vendor): (string | undefined)[] {
  return events
    .raw(accountId)
    .flatMap(({ payload }) => (payload.case === 'vendorAlert' ? [payload.value.kind] : []))
}

/** The entries of the audit log about the account that have this actor. */
export function entriesBy(actor: string, { events }: Harness, { accountId }: Vendor) {
  return events
    .raw(accountId)
    .flatMap(({ payload }) =>
      payload.case === 'auditEntry' && payload.value.actor === actor
        ? [{ ...payload.value, changes: JSON.parse(payload.value.changes) as object }]
        : [],
    )
}

/** Another plan of the vendor's, at a recurring price of its own. */
export async function givenOtherPlan(harness: Harness, vendor: Vendor): Promise<Vendor> {
  const plan = newPlan(vendor)
  await changePlan(harness.catalog, harness.licensingAddress, plan)
  const priceId = await givenRecurringPrice(harness, vendor)
  const price = { planId: plan.id, priceId, amount: 4980n, currency: 'jpy', mode: 'subscription' }
  await harness.billing.setPrice({ ...scope(vendor), price })
  return { ...vendor, planId: plan.id, priceId }
}

let prices = 0

/** A price at the processor that no plan is mapped to. */
export async function givenRecurringPrice(
  { simulator }: Harness,
  vendor: Vendor,
  interval: 'month' | 'year' = 'month',
): Promise<string> {
  const id = `price_other${(prices += 1)}`
  const money = { unit_amount: 4980, currency: 'jpy', recurring: { interval } }
  await simulator.control('set-price', { id, account: vendor.connectedAccount, ...money })
  return id
}

interface SubscriptionAtProcessor {
  items: { data: { id: string; price: { id: string }; current_period_end: number }[] }
}

export async function itemsOf(harness: Harness, { subscription, vendor }: Subscribed) {
  const path = `subscriptions/${subscription}`
  return (await askProcessor<SubscriptionAtProcessor>(harness, path, vendor)).items.data
}

/** Expects that the licence ends with the period of this item of the subscription and the grace after it. */
export async function expectPaidPeriod(harness: Harness, subscribed: Subscribed, item = 0): Promise<void> {
  const items = await itemsOf(harness, subscribed)
  const end = items[item]!.current_period_end + subscriptionGraceMs / 1000
  expect(await expiryOf(harness, subscribed)).toBe(end)
}

export async function expiryOf(harness: Harness, { vendor, licenceId }: Subscribed): Promise<number> {
  const { expiresOn } = await licenceOf(harness, vendor, licenceId)
  return Number(expiresOn!.seconds)
}
