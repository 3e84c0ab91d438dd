import { newId } from '@licensing/database/ids'
import type { Price } from '@licensing/proto/billing'
import { changePlan, newPlan } from './catalog-stand-in.ts'
import type { Fee } from './catalog-stand-in.ts'
import type { Surroundings } from './surroundings.ts'

export interface VendorOptions {
  fee?: Partial<Fee>
  /** Null if the plan has no price. */
  price?: Partial<Pick<Price, 'amount' | 'currency' | 'mode' | 'periodMonths' | 'updatesMonths'>> | null
  connect?: boolean
}

export interface Vendor {
  accountId: string
  applicationId: string
  planId: string
  priceId: string
  connectedAccount: string
}

type Services = Pick<Surroundings, 'billing' | 'catalog' | 'licensingAddress'>

/** An account with an application, a connected processor and a plan at this price. */
export async function givenVendor(
  { billing, catalog, licensingAddress }: Services,
  { fee, price = {}, connect = true }: VendorOptions = {},
): Promise<Vendor> {
  const vendor = {
    accountId: newId('acct'),
    applicationId: newId('app'),
    connectedAccount: `acct_${newId('acct').slice(-26)}`,
    priceId: `price_${newId('pln').slice(-26)}`,
  }
  const { accountId, applicationId, priceId } = vendor
  catalog.accounts.set(accountId, { feeBps: 500, feeFixedMinor: 0n, ...fee, applicationIds: [applicationId] })
  const plan = newPlan(vendor)
  await changePlan(catalog, licensingAddress, plan)
  if (connect) await billing.connectProcessor({ ...vendor, processor: 'stripe' })
  if (price) {
    await billing.setPrice({
      accountId,
      applicationId,
      price: { planId: plan.id, priceId, amount: 4900n, currency: 'usd', mode: 'payment', ...price },
    })
  }
  return { ...vendor, planId: plan.id }
}

export type Mode = 'payment' | 'subscription'

/** Another plan of the vendor's, at a price of its own. */
export async function anotherPlan(
  { billing, catalog, licensingAddress }: Services,
  vendor: Vendor,
  price: { amount: bigint; mode: Mode; currency: string },
): Promise<Vendor> {
  const plan = newPlan(vendor)
  await changePlan(catalog, licensingAddress, plan)
  const priceId = `price_${plan.id.slice(-26)}`
  const { accountId, applicationId } = vendor
  await billing.setPrice({ accountId, applicationId, price: { planId: plan.id, priceId, ...price } })
  return { ...vendor, planId: plan.id, priceId }
}

export async function changeStatus(
  { catalog, licensingAddress }: Pick<Services, 'catalog' | 'licensingAddress'>,
  planId: string,
  status: 'active' | 'retired',
): Promise<void> {
  const plan = catalog.plans.get(planId)!
  const version = plan.version + 1n
  const archiveVersion = status === 'retired' ? version : plan.archiveVersion
  await changePlan(catalog, licensingAddress, { ...plan, status, version, archiveVersion })
}
