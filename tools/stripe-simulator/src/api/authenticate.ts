import { isConnected } from '../flows/connect-account.ts'
import { apiVersion } from '../objects/api-version.ts'
import { StripeError, invalidRequest } from '../http/stripe-error.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'

type Headers = Record<string, string | string[] | undefined>

/** Who asks, and for which account. Nobody who holds a live key may take this for Stripe. */
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

export function noAccess(account: string): StripeError {
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
