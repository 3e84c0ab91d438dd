import { implement } from '@licensing/grpc/server'
import { createRepeatable } from '@licensing/changes/repeatable'
import {
  BillingService,
  CheckoutSessionSchema,
  ProcessorAuthorizationSchema,
  RecordSaleEventResponseSchema,
} from '@licensing/proto/billing'
import { createCheckoutSession } from './checkout-sessions/create-checkout-session.ts'
import { getCheckoutSession } from './checkout-sessions/get-checkout-session.ts'
import { listCheckoutSessions } from './checkout-sessions/list-checkout-sessions.ts'
import { replayCheckoutSession } from './checkout-sessions/replay-checkout-session.ts'
import { beginAuthorization } from './connections/begin-authorization.ts'
import { confirmAuthorization } from './connections/confirm-authorization.ts'
import { receiveAuthorization } from './connections/receive-authorization.ts'
import { connectProcessor } from './connections/connect-processor.ts'
import { getProcessor } from './connections/get-processor.ts'
import type { BillingDependencies } from './dependencies.ts'
import { getSpendCap } from './fees/get-spend-cap.ts'
import { listFees } from './fees/list-fees.ts'
import { setSpendCap } from './fees/set-spend-cap.ts'
import { getPaymentDays } from './payment-days/get-payment-days.ts'
import { receiveProcessorEvent } from './processor-events/receive-processor-event.ts'
import { listPayments } from './payments/list-payments.ts'
import { deletePrice } from './prices/delete-price.ts'
import { getPrice } from './prices/get-price.ts'
import { setPrice } from './prices/set-price.ts'
import { listRefunds } from './refunds/list-refunds.ts'
import { listSaleEvents } from './sale-events/list-sale-events.ts'
import { recordSaleEvent } from './sale-events/record-sale-event.ts'
import { findLicencesOfSale } from './search/find-licences-of-sale.ts'

/** Every RPC of the service. */
export function billingService(deps: BillingDependencies) {
  const repeatable = createRepeatable(deps)
  return implement(BillingService, {
    connectProcessor: (request) => connectProcessor(deps, request),
    beginProcessorAuthorization: repeatable(ProcessorAuthorizationSchema, (request) =>
      beginAuthorization(deps, request),
    ),
    receiveProcessorAuthorization: (request) => receiveAuthorization(deps, request),
    confirmProcessorAuthorization: (request) => confirmAuthorization(deps, request),
    getProcessor: (request) => getProcessor(deps, request),
    receiveProcessorEvent: (request) => receiveProcessorEvent(deps, request),

    setPrice: (request) => setPrice(deps, request),
    getPrice: (request) => getPrice(deps, request),
    deletePrice: (request) => deletePrice(deps, request),

    createCheckoutSession: repeatable(CheckoutSessionSchema, (request, begun) =>
      createCheckoutSession(deps, request, begun),
    ),
    getCheckoutSession: (request) => getCheckoutSession(deps, request),
    replayCheckoutSession: repeatable(CheckoutSessionSchema, (request, begun) =>
      replayCheckoutSession(deps, request, begun),
    ),

    listCheckoutSessions: (request) => listCheckoutSessions(deps, request),
    recordSaleEvent: repeatable(RecordSaleEventResponseSchema, (request) => recordSaleEvent(deps, request)),

    listSaleEvents: (request) => listSaleEvents(deps, request),
    findLicencesOfSale: (request) => findLicencesOfSale(deps, request),
    getPaymentDays: (request) => getPaymentDays(deps, request),
    listPayments: (request) => listPayments(deps, request),
    listRefunds: (request) => listRefunds(deps, request),
    listFees: (request) => listFees(deps, request),
    getSpendCap: (request) => getSpendCap(deps, request),
    setSpendCap: (request) => setSpendCap(deps, request),
  })
}
