import { platformApplication } from '../world/ids.ts'
import type { Account, Application } from './wire.ts'

/** Any `acct_…` but `acct_missing…` is a vendor's account that is connected and ready to sell, until it is deauthorized. */
export function connectedAccount(id: string): Account {
  return {
    id,
    object: 'account',
    business_type: 'company',
    charges_enabled: true,
    country: 'US',
    default_currency: 'usd',
    details_submitted: true,
    email: 'vendor@example.com',
    metadata: { simulated: 'true' },
    payouts_enabled: false,
    type: 'standard',
  }
}

export function platform(): Application {
  return { id: platformApplication, object: 'application', name: 'Licensing Platform (simulated)' }
}
