import { invalid, ServiceError } from '@licensing/grpc/errors'
import { firstCharacters } from '@licensing/proto/text'
import { Stripe } from 'stripe'

/**
 * What a call that failed came to. `absent`: there is no such thing. `account`: the connected account is none, or not
 * connected. `rights`: the platform's own key is refused, which says nothing about what was sent. `refused`: what was
 * sent, as it will be each time. `unavailable`: there was no answer, or none for now.
 */
type Failure = 'absent' | 'account' | 'rights' | 'refused' | 'unavailable'

// 408: too slow; 409: another request with the same key is under way; 429: too many.
const passing = new Set([408, 409, 425, 429])

export function failureOf(error: Stripe.errors.StripeError): Failure {
  const { statusCode: status = 0, code } = error
  if (error instanceof Stripe.errors.StripeInvalidClientError) return 'rights'
  // Stripe's answer for accounts of others and for none: 403, formerly 401, with this code.
  if (code === 'account_invalid') return 'account'
  if (status === 404 || (status === 400 && code === 'resource_missing')) return 'absent'
  if (status === 401 || status === 403) return 'rights'
  return status >= 400 && status < 500 && !passing.has(status) ? 'refused' : 'unavailable'
}

/** Runs a look-up; undefined where Stripe says that there is no such thing. A refusal does not say so. */
export async function lookUp<T>(call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call()
  } catch (error) {
    if (error instanceof Stripe.errors.StripeError && failureOf(error) === 'absent') return undefined
    throw error
  }
}

/**
 * A failed call as its caller is answered.
 *
 * @param refusal the answer if what was sent is refused
 */
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

const mostCharacters = 300

export function messageOf({ message }: Stripe.errors.StripeError): string {
  return firstCharacters(message, mostCharacters)
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
export function checkoutRefusal(error: unknown): unknown {
  return answerTo(error, (refused, failure) => {
    const problem = priceProblem(refused)
    if (problem !== undefined) return invalid('/plan_id', problem)
    if (failure === 'refused') {
      const pointer = pointers[refused.param ?? ''] ?? '/plan_id'
      return invalid(pointer, `the payment processor refused the checkout: ${messageOf(refused)}`)
    }
    return new ServiceError(
      'conflict',
      'the payment processor refused to open a checkout on the connected account: check the account, then connect it again with PUT /v1/processor',
      { cause: error },
    )
  })
}

/** Where the vendor's request has what Stripe names; all else follows from the plan. */
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
