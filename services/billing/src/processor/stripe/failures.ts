import { invalid, ServiceError } from '@licensing/grpc/errors'
import { firstCharacters } from '@licensing/proto/text'
import { Stripe } from 'stripe'
import { notStripe } from './client.ts'

/**
 * Why a call failed. `absent`: there is no such object. `account`: there is no such connected account. `rights`: Stripe
 * refuses the platform's key, so the answer does not depend on the request. `refused`: Stripe refuses the request, and
 * would refuse it again. `unavailable`: no answer, or a failure that may pass.
 */
type Failure = 'absent' | 'account' | 'rights' | 'refused' | 'unavailable'

// An edge server refuses a request that is malformed, or whose body, address or headers are too long for it.
const refusedByEdge = new Set([400, 413, 414, 431])

// 408: too slow; 409: another request with the same key is running; 429: too many.
const passing = new Set([408, 409, 425, 429])

export function failureOf(error: Stripe.errors.StripeError): Failure {
  const { statusCode: status = 0, code } = error
  // Any other page says nothing about the request.
  if (code === notStripe) return refusedByEdge.has(status) ? 'refused' : 'unavailable'
  if (error instanceof Stripe.errors.StripeInvalidClientError) return 'rights'
  // Stripe's answer if the account does not exist or belongs to another platform: 403 or 401 with this code.
  if (code === 'account_invalid') return 'account'
  if (status === 404 || (status === 400 && code === 'resource_missing')) return 'absent'
  if (status === 401 || status === 403) return 'rights'
  return status >= 400 && status < 500 && !passing.has(status) ? 'refused' : 'unavailable'
}

/** Runs a look-up. @returns undefined if Stripe says that there is no such object; a refusal throws */
export async function lookUp<T>(call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call()
  } catch (error) {
    if (error instanceof Stripe.errors.StripeError && failureOf(error) === 'absent') return undefined
    throw error
  }
}

/** The error to answer after a failed call. @param refusal the error if Stripe refuses the request */
export function answerTo(
  error: unknown,
  refusal: (error: Stripe.errors.StripeError, failure: Failure) => ServiceError,
): unknown {
  if (!(error instanceof Stripe.errors.StripeError)) return error
  const failure = failureOf(error)
  if (failure === 'unavailable') return unavailable('the payment processor is temporarily unavailable', error)
  if (failure !== 'rights') return refusal(error, failure)
  return unavailable(
    "the payment processor refuses this platform's key: its operator has to give the key the rights that it lacks",
    error,
  )
}

function unavailable(detail: string, cause: unknown): ServiceError {
  return new ServiceError('unavailable', detail, { cause })
}

const maxCharacters = 300

/** The text of a refusal by Stripe, with its reason if it gave one. */
export function refusalText(what: string, { message }: Stripe.errors.StripeError): string {
  const reason = firstCharacters(message.trim(), maxCharacters)
  return `the payment processor refused ${what}${reason && `: ${reason}`}`
}

/** Problems of the plan's price by Stripe's code, for the vendor who has to change it. */
const priceProblems: Readonly<Record<string, string>> = {
  amount_too_small: 'the price is below the least amount that the payment processor charges in its currency',
  amount_too_large: 'the price is above the most that the payment processor charges in its currency',
  price_inactive:
    'the price that this plan is mapped to is inactive at the payment processor: map another one',
  resource_missing: 'the payment processor does not know the price that this plan is mapped to',
}

/** The error for the vendor whose checkout could not be opened. */
export function checkoutRefusal(error: unknown): unknown {
  return answerTo(error, (refused, failure) => {
    const problem = priceProblem(refused)
    if (problem !== undefined) return invalid('/plan_id', problem)
    if (failure === 'refused') {
      const pointer = pointers[refused.param ?? ''] ?? '/plan_id'
      return invalid(pointer, refusalText('the checkout', refused))
    }
    return new ServiceError(
      'conflict',
      'the payment processor refused to open a checkout on the connected account: check the account, then connect it again with PUT /v1/processor',
      { cause: error },
    )
  })
}

/** The field of the vendor's request for a parameter of Stripe. All other parameters follow from the plan. */
const pointers: Readonly<Record<string, string>> = {
  success_url: '/success_url',
  cancel_url: '/cancel_url',
  client_reference_id: '/external_ref',
}

function priceProblem({ code, param, message }: Stripe.errors.StripeError): string | undefined {
  const ofPrice = param?.startsWith('line_items') === true
  if (/\binactive\b/i.test(message) && (ofPrice || /price|product/i.test(message))) {
    return priceProblems['price_inactive']
  }
  if (code !== undefined && Object.hasOwn(priceProblems, code) && (ofPrice || code !== 'resource_missing')) {
    return priceProblems[code]
  }
  return undefined
}
