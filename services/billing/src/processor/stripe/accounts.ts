import { invalid, ServiceError } from '@licensing/grpc/errors'
import { Stripe } from 'stripe'
import type { StripeSettings } from './client.ts'
import { answerTo, failureOf, refusalText } from './failures.ts'

const timeoutMs = 5_000

/** Whether an account exists and is connected to the platform. @throws ServiceError `unavailable` */
export async function isConnected(stripe: Stripe, connectedAccount: string): Promise<boolean> {
  try {
    const { id } = await stripe.accounts.retrieve(connectedAccount, {}, { timeout: timeoutMs })
    return id === connectedAccount
  } catch (error) {
    if (error instanceof Stripe.errors.StripeError && isNone(failureOf(error))) return false
    throw answerTo(error, (refused) => invalid('/connected_account', refusalText('this account', refused)))
  }
}

const isNone = (failure: string) => failure === 'absent' || failure === 'account'

/** The page on which the owner of an account lets the platform act for it. @throws ServiceError `unavailable` */
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

/**
 * Exchanges the code with which that page returned; it can be used once.
 *
 * @throws ServiceError `bad_request` if Stripe refuses it, `unavailable`
 */
export async function redeemConsent(
  stripe: Stripe,
  code: string,
): Promise<{ connectedAccount: string; live: boolean }> {
  try {
    const token = await stripe.oauth.token({ grant_type: 'authorization_code', code }, { timeout: timeoutMs })
    return { connectedAccount: token.stripe_user_id ?? '', live: token.livemode === true }
  } catch (error) {
    throw answerTo(
      error,
      () =>
        new ServiceError(
          'bad_request',
          'the payment processor does not accept this consent, or no longer: begin again',
          { cause: error },
        ),
    )
  }
}
