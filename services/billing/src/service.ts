import { implement } from '@licensing/grpc/server'
import { createRepeatable } from '@licensing/changes/repeatable'
import {
  BillingService,
  CheckoutSessionSchema,
  ProcessorAuthorizationSchema,
  RecordSaleEventResponseSchema,
  ReportSaleFactResponseSchema,
} from '@licensing/proto/billing'
import { createCheckoutSession } from './checkout-sessions/create-checkout-session.ts'
import { replayCheckoutSession } from './checkout-sessions/replay-checkout-session.ts'
import { getCheckoutSession, listCheckoutSessions } from './checkout-sessions/sessions.ts'
import {
  beginAuthorization,
  confirmAuthorization,
  receiveAuthorization,
} from './connected-accounts/authorize-account.ts'
import { connectProcessor, getProcessor } from './connected-accounts/connect-account.ts'
import type { BillingDependencies } from './dependencies.ts'
import { listFees } from './fees/list-fees.ts'
import { createSubscriptionSession, getSubscription } from './checkout-sessions/subscriptions.ts'
import { getSpendCap, setSpendCap } from './fees/spend-cap.ts'
import { receiveProcessorEvent } from './inbox/processor-events.ts'
import { getPaymentDays } from './payment-days/payment-days.ts'
import { findLicencesOfSale, listPayments } from './payments/payments.ts'
import { deletePrice, getPrice, setPrice } from './prices/prices.ts'
import { listRefunds } from './refunds/list-refunds.ts'
import { getSaleEvent, listSaleEvents } from './sale-events/read-sale-events.ts'
import { recordSaleEvent } from './sale-events/record-sale-event.ts'
import { reportSaleFact } from './sale-facts/report-sale-fact.ts'

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

    createCheckoutSession: repeatable(CheckoutSessionSchema, (request, unfinishedAnswer) =>
      createCheckoutSession(deps, request, unfinishedAnswer),
    ),
    getCheckoutSession: (request) => getCheckoutSession(deps, request),
    replayCheckoutSession: repeatable(CheckoutSessionSchema, (request, unfinishedAnswer) =>
      replayCheckoutSession(deps, request, unfinishedAnswer),
    ),

    listCheckoutSessions: (request) => listCheckoutSessions(deps, request),
    recordSaleEvent: repeatable(RecordSaleEventResponseSchema, (request) => recordSaleEvent(deps, request)),

    listSaleEvents: (request) => listSaleEvents(deps, request),
    getSaleEvent: (request) => getSaleEvent(deps, request),
    reportSaleFact: repeatable(ReportSaleFactResponseSchema, (request) => reportSaleFact(deps, request)),
    findLicencesOfSale: (request) => findLicencesOfSale(deps, request),
    getPaymentDays: (request) => getPaymentDays(deps, request),
    listPayments: (request) => listPayments(deps, request),
    listRefunds: (request) => listRefunds(deps, request),
    listFees: (request) => listFees(deps, request),
    getSpendCap: (request) => getSpendCap(deps, request),
    setSpendCap: (request) => setSpendCap(deps, request),
    getSubscription: (request) => getSubscription(deps, request),
    createSubscriptionSession: (request) => createSubscriptionSession(deps, request),
  })
}
