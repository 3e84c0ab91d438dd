import { invalid, ServiceError } from '@licensing/grpc/errors'
import { Stripe } from 'stripe'

/** Whether Stripe said that there is no such thing, or no such call, as against giving no answer. */
export function saysAbsent(error: unknown): boolean {
  return error instanceof Stripe.errors.StripeError && [400, 403, 404, 405].includes(error.statusCode ?? 0)
}

/** Runs a look-up; undefined where there is nothing to find. */
export async function lookUp<T>(call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call()
  } catch (error) {
    if (saysAbsent(error)) return undefined
    throw error
  }
}

/** What a refused checkout means to the vendor who asked for it. */
export function checkoutRefusal(error: unknown): ServiceError {
  if (error instanceof Stripe.errors.StripeInvalidRequestError) {
    if (error.param?.startsWith('line_items')) {
      return invalid('/plan_id', 'the payment processor does not know the price that this plan is mapped to')
    }
    if (error.param === 'success_url' || error.param === 'cancel_url') {
      return invalid(`/${error.param}`, 'the payment processor rejected this URL')
    }
  }
  if (
    error instanceof Stripe.errors.StripePermissionError ||
    error instanceof Stripe.errors.StripeInvalidRequestError
  ) {
    return new ServiceError(
      'conflict',
      'the payment processor refused to open a checkout on the connected account: check the account, then connect it again with PUT /v1/processor',
      { cause: error },
    )
  }
  return new ServiceError('unavailable', 'the payment processor is temporarily unavailable', {
    cause: error,
  })
}
