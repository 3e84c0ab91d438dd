import { openCheckout, priceOfLine, type CheckoutOrder } from '../flows/open-checkout.ts'
import type { Params } from '../http/params.ts'
import { invalidRequest } from '../http/stripe-error.ts'
import type { Price } from '../objects/wire.ts'
import { readOne, type Call } from './call.ts'
import { paymentIntentData, sessionCreate, sessionLine, subscriptionData } from './checkout-parameters.ts'

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

function readLines(
  { world, account }: Pick<Call, 'world' | 'account'>,
  params: Params,
): { price: Price; quantity: number }[] {
  const lines = params.list('line_items')
  if (lines.length === 0) throw params.missing('line_items')
  return lines.map((line) => {
    line.accept(sessionLine)
    const quantity = line.integer('quantity', 1) ?? 1
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
