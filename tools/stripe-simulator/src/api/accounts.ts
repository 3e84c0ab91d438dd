import { impossible, invalidRequest, StripeError } from '../http/stripe-error.ts'
import { apiVersion } from '../objects/api-version.ts'
import type { Account, Application } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import { platformApplication } from '../world/ids.ts'
import type { World } from '../world/world.ts'
import type { Call } from './call.ts'
import { noParameters } from './parameters.ts'

type Headers = Record<string, string | string[] | undefined>

/** The account of an authenticated request. Live keys are refused, so that nobody mistakes the simulator for Stripe. */
export function authenticate(world: World, headers: Headers): Owner {
  const key = secretKey(String(headers['authorization'] ?? ''))
  if (key === undefined) throw unauthorized('You did not provide an API key. (This is a simulator.)')
  if (key.includes('_live_')) throw unauthorized('This is a simulator of Stripe. It refuses live keys.')
  if (!/^(sk|rk)_test_/.test(key)) throw unauthorized('Invalid API Key provided.')

  const version = headers['stripe-version']
  if (version !== undefined && version !== apiVersion) {
    throw invalidRequest(`Invalid Stripe API version: ${String(version)}. The simulator has ${apiVersion}.`)
  }
  const account = headers['stripe-account']
  if (account === undefined || account === '') return null
  const id = String(account)
  if (!isConnected(world, id)) throw noAccess(id)
  return id
}

function noAccess(account: string): StripeError {
  return new StripeError(403, {
    type: 'invalid_request_error',
    code: 'account_invalid',
    message: `The provided key does not have access to account '${account}' (or that account does not exist). Application access may have been revoked.`,
  })
}

function unauthorized(message: string): StripeError {
  return new StripeError(401, { type: 'invalid_request_error', message })
}

function secretKey(authorization: string): string | undefined {
  const [scheme, value] = authorization.split(' ')
  if (value === undefined) return undefined
  if (scheme === 'Bearer') return value
  return scheme === 'Basic' ? Buffer.from(value, 'base64').toString().split(':')[0] : undefined
}

export function getAccount({ world, id, params }: Call): object {
  params.accept(noParameters)
  if (!isConnected(world, id)) throw noAccess(id)
  return connectedAccount(id)
}

/** Every `acct_…` is connected, except `acct_missing…` and deauthorized accounts. */
export function isConnected(world: World, account: string): boolean {
  return /^acct_(?!missing)./.test(account) && !world.deauthorized.has(account)
}

/** The vendor disconnects the platform. The platform's keys can then no longer use the account. */
export function deauthorize(world: World, account: string): void {
  if (world.deauthorized.has(account)) throw impossible(`${account} is not connected`)
  world.deauthorized.add(account)
  world.emitter.emit(account, 'account.application.deauthorized', platform())
}

export function authorize(world: World, account: string): void {
  if (!world.deauthorized.delete(account)) throw impossible(`${account} is connected already`)
  world.emitter.emit(account, 'account.application.authorized', platform())
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

export function platform(): Application {
  return { id: platformApplication, object: 'application', name: 'Licensing Platform (simulated)' }
}
