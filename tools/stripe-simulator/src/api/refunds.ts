import { findOwned } from '../flows/find.ts'
import { refundCharge } from '../flows/refund-charge.ts'
import { invalidRequest } from '../http/stripe-error.ts'
import type { Charge } from '../objects/wire.ts'
import type { Call } from './call.ts'
import { noParameters, refundCreate, refundList } from './parameters.ts'
import { page } from './page.ts'

const reasons = ['duplicate', 'fraudulent', 'requested_by_customer'] as const

export function createRefund(call: Call): object {
  const { world, account, params } = call
  params.accept(refundCreate)
  const charge = chargeToRefund(call)
  const refunding = {
    amount: params.integer('amount', 1),
    status: 'succeeded' as const,
    reason: params.oneOf('reason', reasons) ?? null,
    metadata: params.metadata('metadata'),
    refundApplicationFee: params.boolean('refund_application_fee') ?? false,
    despiteDispute: false,
  }
  return world.clock.of(charge.customer, () => refundCharge(world, account, charge, refunding))
}

export function getRefund({ world, account, id, params }: Call): object {
  params.accept(noParameters)
  return findOwned(world.refunds, 'refund', account, id)
}

export function listRefunds({ world, account, params }: Call): object {
  params.accept(refundList)
  const charge = params.string('charge')
  const intent = params.string('payment_intent')
  const found = world.refunds.list(
    account,
    (refund) =>
      (charge === undefined || refund.charge === charge) &&
      (intent === undefined || refund.payment_intent === intent),
  )
  return page('/v1/refunds', params, found)
}

function chargeToRefund({ world, account, params }: Call): Charge {
  const intentId = params.string('payment_intent')
  const intent = intentId && findOwned(world.paymentIntents, 'payment_intent', account, intentId)
  const chargeId = params.string('charge') ?? (intent && intent.latest_charge)
  if (chargeId) return findOwned(world.charges, 'charge', account, chargeId)
  throw invalidRequest(
    'One of the following params should be provided for this request: payment_intent or charge.',
  )
}
