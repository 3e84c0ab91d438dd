import { emit } from '../events.ts'
import { platformApplication } from '../ids.ts'
import { apiVersion } from '../objects/api-version.ts'
import type { Account } from '../objects/wire.ts'
import type { Owner, World } from '../world.ts'
import { impossible, invalidRequest, StripeError } from './errors.ts'

export type Headers = Record<string, string | string[] | undefined>

/** The account of an authenticated request. Live keys are refused, so that nobody mistakes the simulator for Stripe. */
export function authenticate(world: World, headers: Headers): Owner {
  const [scheme, value = ''] = String(headers['authorization'] ?? '').split(' ')
  const key = scheme === 'Basic' ? Buffer.from(value, 'base64').toString().split(':')[0]! : value
  if (key.includes('_live_')) throw unauthorized('This is a simulator of Stripe. It refuses live keys.')
  if (!/^(sk|rk)_test_/.test(key)) throw unauthorized('Invalid API Key provided. (This is a simulator.)')
  const version = headers['stripe-version']
  if (version !== undefined && version !== apiVersion) {
    throw invalidRequest(`Invalid Stripe API version: ${String(version)}. The simulator has ${apiVersion}.`)
  }
  const account = String(headers['stripe-account'] ?? '')
  if (account !== '') refuseUnlessConnected(world, account)
  return account || null
}

function unauthorized(message: string): StripeError {
  return new StripeError(401, { type: 'invalid_request_error', message })
}

/** Every `acct_…` is connected, except `acct_missing…` and deauthorized accounts. */
export function isConnected(world: World, account: string): boolean {
  return /^acct_(?!missing)./.test(account) && !world.deauthorized.has(account)
}

export function refuseUnlessConnected(world: World, account: string): void {
  if (isConnected(world, account)) return
  throw new StripeError(403, {
    type: 'invalid_request_error',
    code: 'account_invalid',
    message: `The provided key does not have access to account '${account}' (or that account does not exist). Application access may have been revoked.`,
  })
}

/** The vendor disconnects the platform. The platform's keys can then no longer use the account. */
export function deauthorize(world: World, account: string): Account {
  if (world.deauthorized.has(account)) throw impossible(`${account} is not connected`)
  world.deauthorized.add(account)
  const platform = { id: platformApplication, object: 'application', name: 'Licensing (simulated)' } as const
  emit(world, 'account.application.deauthorized', platform, undefined, account)
  return connectedAccount(account)
}

export function authorize(world: World, account: string): Account {
  if (!world.deauthorized.delete(account)) throw impossible(`${account} is connected already`)
  return connectedAccount(account)
}

/** The account object of a connected vendor that is ready to sell. */
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
