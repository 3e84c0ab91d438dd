import { findOwned } from '../flows/find.ts'
import { expireSession, openCheckout, priceOfLine, type CheckoutOrder } from '../flows/open-checkout.ts'
import type { Params } from '../http/params.ts'
import { invalidRequest } from '../http/stripe-error.ts'
import { listOf, type LineItem, type Price } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import { page, type Call, readOne } from './call.ts'
import {
  paymentIntentData,
  sessionCreate,
  sessionLine,
  sessionLineList,
  sessionList,
  subscriptionData,
} from './checkout-parameters.ts'
import { noParameters } from './parameters.ts'
import { addPrice, readInlinePrice } from './prices.ts'

const url = '/v1/checkout/sessions'

export function createCheckoutSession({ world, account, params }: Call): object {
  params.accept(sessionCreate)
  const mode = params.oneOf('mode', ['payment', 'subscription'])
  if (mode === undefined) throw params.missing('mode')
  params.oneOf('ui_mode', ['hosted_page'])
  const successUrl = params.url('success_url')
  if (successUrl === undefined) throw params.missing('success_url')
  const clientReferenceId = params.string('client_reference_id') ?? null
  if (clientReferenceId !== null && clientReferenceId.length > 200) {
    throw invalidRequest('client_reference_id holds at most 200 characters.', {
      param: 'client_reference_id',
    })
  }
  return openCheckout(world, account, {
    mode,
    successUrl,
    cancelUrl: params.url('cancel_url') ?? null,
    clientReferenceId,
    customerEmail: params.string('customer_email') ?? null,
    metadata: params.metadata('metadata'),
    expiresAt: params.integer('expires_at'),
    lines: readLines({ world, account }, params),
    ...readPaymentData(mode, params),
  })
}

export const getCheckoutSession = readOne('sessions', 'checkout.session')

export function listCheckoutSessions({ world, account, params }: Call): object {
  params.accept(sessionList)
  const intent = params.string('payment_intent')
  const subscription = params.string('subscription')
  const status = params.oneOf('status', ['open', 'complete', 'expired'])
  const found = world.sessions.list(
    account,
    (session) =>
      (intent === undefined || session.payment_intent === intent) &&
      (subscription === undefined || session.subscription === subscription) &&
      (status === undefined || session.status === status),
  )
  return page(url, params, found)
}

export function listCheckoutLines({ world, account, id, params }: Call): object {
  params.accept(sessionLineList)
  const limit = params.integer('limit', 1) ?? 10
  const lines = linesOf(world, account, id)
  return {
    ...listOf(`${url}/${id}/line_items`, lines.slice(0, limit)),
    has_more: lines.length > limit,
  }
}

export function expireCheckoutSession({ world, account, id, params }: Call): object {
  params.accept(noParameters)
  return expireSession(world, account, findOwned(world.sessions, 'checkout.session', account, id))
}

function readLines(
  { world, account }: Pick<Call, 'world' | 'account'>,
  params: Params,
): { price: Price; quantity: number }[] {
  const lines = params.list('line_items')
  if (lines.length === 0) throw params.missing('line_items')
  return lines.map((line) => {
    line.accept(sessionLine)
    const quantity = line.integer('quantity', 1) ?? 1
    const inline = line.object('price_data')
    if (inline !== undefined) {
      return { quantity, price: addPrice(world, account, readInlinePrice(inline)) }
    }
    const id = line.required('price')
    const price = priceOfLine(world, account, id, params.metadata('metadata'))
    if (price !== undefined) return { quantity, price }
    throw invalidRequest(`No such price: '${id}'`, { code: 'resource_missing', param: line.name('price') })
  })
}

function readPaymentData(
  mode: 'payment' | 'subscription',
  params: Params,
): Pick<CheckoutOrder, 'paymentMetadata' | 'description' | 'applicationFeeAmount' | 'applicationFeePercent'> {
  const [name, other] =
    mode === 'payment'
      ? (['payment_intent_data', 'subscription_data'] as const)
      : (['subscription_data', 'payment_intent_data'] as const)
  if (params.has(other)) {
    throw invalidRequest(`You can not pass \`${other}\` in \`${mode}\` mode.`, { param: other })
  }
  const fee = mode === 'payment' ? 'application_fee_amount' : 'application_fee_percent'
  const data = params.object(name)?.accept(mode === 'payment' ? paymentIntentData : subscriptionData)
  return {
    paymentMetadata: data?.metadata('metadata') ?? {},
    description: data?.string('description') ?? null,
    applicationFeeAmount: (mode === 'payment' ? data?.integer(fee) : null) ?? null,
    applicationFeePercent: mode === 'subscription' && data !== undefined ? readPercent(data, fee) : null,
  }
}

function readPercent(data: Params, name: string): number | null {
  const text = data.string(name)
  if (text === undefined) return null
  const percent = Number(text)
  if (/^\d+(\.\d{1,2})?$/.test(text) && percent <= 100) return percent
  throw invalidRequest('The fee percent is a number from 0 to 100 with at most two decimals.', {
    param: data.name(name),
  })
}

export function linesOf(world: World, account: Owner, sessionId: string): LineItem[] {
  const plan = findOwned(world.checkoutPlans, 'checkout session', account, sessionId)
  return plan.lines.map(({ lineId, price, quantity }) => {
    const amount = (price.unit_amount ?? 0) * quantity
    return {
      id: lineId,
      object: 'item',
      adjustable_quantity: null,
      amount_discount: 0,
      amount_subtotal: amount,
      amount_tax: 0,
      amount_total: amount,
      currency: price.currency,
      description: price.nickname ?? price.id,
      metadata: {},
      price: structuredClone(price),
      quantity,
    }
  })
}
