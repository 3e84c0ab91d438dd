import { implement } from '@licensing/grpc/server'
import { BillingService } from '@licensing/proto/billing'
import { createCheckoutSession } from './checkout-sessions/create-checkout-session.ts'
import { getCheckoutSession } from './checkout-sessions/get-checkout-session.ts'
import { replayCheckoutSession } from './checkout-sessions/replay-checkout-session.ts'
import { connectProcessor } from './connections/connect-processor.ts'
import { getProcessor } from './connections/get-processor.ts'
import type { BillingDeps } from './dependencies.ts'
import { getSpendCap } from './fees/get-spend-cap.ts'
import { listFees } from './fees/list-fees.ts'
import { setSpendCap } from './fees/set-spend-cap.ts'
import { receiveProcessorEvent } from './inbox/receive-processor-event.ts'
import { listPayments } from './payments/list-payments.ts'
import { deletePrice } from './prices/delete-price.ts'
import { getPrice } from './prices/get-price.ts'
import { setPrice } from './prices/set-price.ts'
import { listRefunds } from './refunds/list-refunds.ts'
import { recordSaleEvent } from './sale-events/record-sale-event.ts'

/** Every RPC of the service. */
export function billingService(deps: BillingDeps) {
  return implement(BillingService, {
    connectProcessor: (request) => connectProcessor(deps, request),
    getProcessor: (request) => getProcessor(deps, request),
    receiveProcessorEvent: (request) => receiveProcessorEvent(deps, request),

    setPrice: (request) => setPrice(deps, request),
    getPrice: (request) => getPrice(deps, request),
    deletePrice: (request) => deletePrice(deps, request),

    createCheckoutSession: (request) => createCheckoutSession(deps, request),
    getCheckoutSession: (request) => getCheckoutSession(deps, request),
    replayCheckoutSession: (request) => replayCheckoutSession(deps, request),

    recordSaleEvent: (request) => recordSaleEvent(deps, request),

    listPayments: (request) => listPayments(deps, request),
    listRefunds: (request) => listRefunds(deps, request),
    listFees: (request) => listFees(deps, request),
    getSpendCap: (request) => getSpendCap(deps, request),
    setSpendCap: (request) => setSpendCap(deps, request),
  })
}
