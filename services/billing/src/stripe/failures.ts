import { invalid, ServiceError } from '@licensing/grpc/errors'
import { Stripe } from 'stripe'

/** Whether Stripe said that there is no such thing. A refusal, such as of rights, does not say so. */
export function saysAbsent(error: unknown): boolean {
  return (
    error instanceof Stripe.errors.StripeError &&
    (error.statusCode === 404 || (error.statusCode === 400 && error.code === 'resource_missing'))
  )
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

/** What is wrong with the plan's price, in the words of the vendor who has to mend it, by Stripe's code. */
const priceProblems: Readonly<Record<string, string>> = {
  amount_too_small: 'the price is below the least amount that the payment processor charges in its currency',
  amount_too_large: 'the price is above the most that the payment processor charges in its currency',
  price_inactive:
    'the price that this plan is mapped to is inactive at the payment processor: map another one',
  resource_missing: 'the payment processor does not know the price that this plan is mapped to',
}

/** What a refused checkout means to the vendor who asked for it. */
export function checkoutRefusal(error: unknown): ServiceError {
  if (error instanceof Stripe.errors.StripeInvalidRequestError) {
    if (error.param === 'success_url' || error.param === 'cancel_url') {
      return invalid(`/${error.param}`, 'the payment processor rejected this URL')
    }
    const problem = priceProblem(error)
    if (problem !== undefined) return invalid('/plan_id', problem)
  }
  if (isAboutAccount(error)) {
    return new ServiceError(
      'conflict',
      'the payment processor refused to open a checkout on the connected account: check the account, then connect it again with PUT /v1/processor',
      { cause: error },
    )
  }
  if (error instanceof Stripe.errors.StripeInvalidRequestError) {
    return new ServiceError('conflict', `the payment processor refused the checkout: ${error.message}`, {
      cause: error,
    })
  }
  return new ServiceError('unavailable', 'the payment processor is temporarily unavailable', {
    cause: error,
  })
}

function priceProblem({ code, param, message }: Stripe.errors.StripeInvalidRequestError): string | undefined {
  const ofPrice = param?.startsWith('line_items') === true
  if (/\binactive\b/i.test(message) && (ofPrice || /price|product/i.test(message))) {
    return priceProblems['price_inactive']
  }
  if (code !== undefined && Object.hasOwn(priceProblems, code) && (ofPrice || code !== 'resource_missing')) {
    return priceProblems[code]
  }
  return ofPrice ? priceProblems['resource_missing'] : undefined
}

function isAboutAccount(error: unknown): boolean {
  return (
    error instanceof Stripe.errors.StripePermissionError ||
    (error instanceof Stripe.errors.StripeInvalidRequestError &&
      (error.code === 'account_invalid' || error.statusCode === 404))
  )
}
