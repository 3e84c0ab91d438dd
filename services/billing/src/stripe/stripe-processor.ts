import { ServiceError } from '@licensing/grpc/errors'
import type { Stripe } from 'stripe'
import type { CheckoutOrder, PaymentProcessor, VerifiedEvent } from '../processors/processor.ts'
import { openCheckout } from './checkout.ts'
import { isLiveKey, merchantOf, newStripeClient } from './client.ts'
import type { StripeSettings } from './client.ts'
import { factsOf, isUsed } from './events.ts'
import { refundFee } from './fees.ts'
import { listEvents } from './list-events.ts'
import { chargeRecords, findCharge, findInvoice, findPeriodEnd } from './look-ups.ts'
import { verifySignature } from './verify.ts'

/** Stripe behind the processor's port: nothing outside this folder knows its words. */
export function stripeProcessor(settings: StripeSettings): PaymentProcessor {
  const client = newStripeClient(settings)
  const live = isLiveKey(settings.secretKey)
  const simulated = settings.apiBase !== undefined && client !== undefined && !live
  const connected = (): Stripe => {
    if (client) return client
    throw new ServiceError('unavailable', 'no payment processor is configured')
  }
  return {
    name: 'stripe',
    simulated,
    live,
    verify: (body, signature) => verifiedEvent(verifySignature(body, signature, settings.webhookSecrets)),
    understands: isUsed,
    factsOf,
    openCheckout: (order: CheckoutOrder) =>
      openCheckout(connected(), order, simulated ? settings.apiBase : undefined),
    findCharge: (merchant, ref) => findCharge(connected(), merchant, ref),
    chargeRecords: (merchant, chargeRef) => chargeRecords(connected(), merchant, chargeRef),
    findInvoice: (merchant, invoiceRef) => findInvoice(connected(), merchant, invoiceRef),
    findPeriodEnd: (merchant, subscriptionRef) => findPeriodEnd(connected(), merchant, subscriptionRef),
    refundFee: (chargeRef, amountMinor, key) => refundFee(connected(), chargeRef, amountMinor, key),
    listEvents: (merchant, since) => listEvents(connected(), merchant, since),
  }
}

function verifiedEvent(event: Stripe.Event): VerifiedEvent {
  return {
    eventId: event.id,
    type: event.type,
    merchant: event.account ? merchantOf(event.account) : undefined,
    live: event.livemode,
  }
}
