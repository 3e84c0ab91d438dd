import { invalidRequest } from '../api/errors.ts'
import { newId } from '../ids.ts'
import type { BillingPortalSession, Subscription } from '../objects/wire.ts'
import { add, list, settingsOf, type Owner, type World } from '../world.ts'

/** Opens the billing portal for a customer of the account. */
export function openPortal(
  world: World,
  account: Owner,
  customer: string,
  returnUrl: string | null,
): BillingPortalSession {
  if (subscriptionsOf(world, account, customer).length === 0) {
    throw invalidRequest(`No such customer: '${customer}'`, { code: 'resource_missing', param: 'customer' })
  }
  if (!settingsOf(world, account).billingPortal) {
    throw invalidRequest(
      'No configuration provided and your test mode default configuration has not been created. Provide a configuration or create your default by saving your customer portal settings in test mode at https://dashboard.stripe.com/test/settings/billing/portal.',
    )
  }
  const id = newId('bps')
  return add(world, world.portalSessions, account, {
    id,
    object: 'billing_portal.session',
    configuration: newId('bpc'),
    created: world.now,
    customer,
    customer_account: null,
    flow: null,
    livemode: false,
    locale: null,
    on_behalf_of: null,
    return_url: returnUrl,
    url: `${world.publicUrl}/portal/${id}`,
  })
}

export function subscriptionsOf(world: World, account: Owner, customer: string): Subscription[] {
  return list(world, account, world.subscriptions, (each) => each.customer === customer)
}
