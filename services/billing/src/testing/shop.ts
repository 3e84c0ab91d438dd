import type { CheckoutSession } from '@licensing/proto/billing'
import type { Harness, Vendor } from './harness.ts'

/** A customer's checkout. */
export async function openCheckout(
  { billing }: Pick<Harness, 'billing'>,
  vendor: Vendor,
  order: { planId?: string; externalRef?: string } = {},
): Promise<CheckoutSession> {
  return billing.createCheckoutSession({
    accountId: vendor.accountId,
    applicationId: vendor.applicationId,
    planId: vendor.planId,
    externalRef: 'cust-1001',
    successUrl: 'https://vendor.example/thanks',
    cancelUrl: 'https://vendor.example/cancel',
    ...order,
  })
}

/** The processor's id of a checkout; it is in the address that the customer is sent to. */
export function checkoutRefOf(session: CheckoutSession): string {
  return session.url.split('/').at(-1)!
}

export async function pay(
  { simulator }: Pick<Harness, 'simulator'>,
  session: CheckoutSession,
  how: { method?: 'delayed'; discount?: number; created?: number } = {},
): Promise<void> {
  await simulator.control('pay', { session: checkoutRefOf(session), ...how })
}

export async function statusOf(
  { billing }: Pick<Harness, 'billing'>,
  { accountId, applicationId }: Vendor,
  sessionId: string,
): Promise<string> {
  return (await billing.getCheckoutSession({ accountId, applicationId, sessionId })).status
}
