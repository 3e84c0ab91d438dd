import { ServiceError } from '@licensing/grpc/errors'
import { Stripe } from 'stripe'
import type { StripeSettings } from './client.ts'
import { saysAbsent } from './failures.ts'

const timeoutMs = 5_000

/** Whether the platform reaches an account. A key that lacks the right to ask is no answer. */
export async function isConnected(stripe: Stripe, connectedAccount: string): Promise<boolean> {
  try {
    const { id } = await stripe.accounts.retrieve(connectedAccount, {}, { timeout: timeoutMs })
    return id === connectedAccount
  } catch (error) {
    // Stripe's answer for accounts of others and for none: 403, formerly 401, with this code.
    if (saysAbsent(error) || codeOf(error) === 'account_invalid') return false
    throw notAsked(error)
  }
}

export function consentUrl(
  { clientId, connectBase, apiBase }: StripeSettings,
  state: string,
  returnUrl: string,
): string {
  if (!clientId) {
    throw new ServiceError(
      'unavailable',
      'no consent page of the payment processor is configured: the operator has to set STRIPE_CLIENT_ID',
    )
  }
  const url = new URL('/oauth/authorize', connectBase ?? apiBase ?? 'https://connect.stripe.com')
  url.search = new URLSearchParams({
    response_type: 'code',
    client_id: clientId,
    scope: 'read_write',
    redirect_uri: returnUrl,
    state,
  }).toString()
  return url.href
}

export async function redeemConsent(
  stripe: Stripe,
  code: string,
): Promise<{ connectedAccount: string; live: boolean }> {
  try {
    const token = await stripe.oauth.token({ grant_type: 'authorization_code', code }, { timeout: timeoutMs })
    return { connectedAccount: token.stripe_user_id ?? '', live: token.livemode === true }
  } catch (error) {
    if (error instanceof Stripe.errors.StripeInvalidGrantError) {
      throw new ServiceError('bad_request', 'the payment processor no longer accepts this consent', {
        cause: error,
      })
    }
    throw notAsked(error)
  }
}

function notAsked(error: unknown): ServiceError {
  return new ServiceError('unavailable', 'the payment processor is temporarily unavailable', {
    cause: error,
  })
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Stripe.errors.StripeError ? error.code : undefined
}
