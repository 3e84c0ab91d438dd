import { ServiceError } from '@licensing/grpc/errors'
import type { Stripe } from 'stripe'
import type { PaymentProcessor, VerifiedEvent } from '../processor.ts'
import { consentUrl, isConnected, redeemConsent } from './accounts.ts'
import { openCheckout } from './checkout.ts'
import { isLiveKey, merchantOf, newStripeClient } from './client.ts'
import type { StripeSettings } from './client.ts'
import { isUsed, readEvent } from './events.ts'
import { findFee, refundFee } from './fees.ts'
import { inUsedVersion, listEvents } from './listed-events.ts'
import { chargeRecords, findCharge, findInvoice, findSubscription } from './look-ups.ts'
import { openSubscriptionPage } from './subscription-page.ts'
import { verifySignature, createWebhook, webhookNeeds } from './webhooks.ts'

/** Implements the payment processor with Stripe. Only this folder knows Stripe's objects. */
export function stripeProcessor(settings: StripeSettings): PaymentProcessor {
  const clients = { usual: newStripeClient(settings), once: newStripeClient(settings, { once: true }) }
  const connected = (kind: keyof typeof clients = 'usual'): Stripe => {
    const client = clients[kind]
    if (client) return client
    throw new ServiceError('unavailable', 'no payment processor is configured')
  }
  return {
    name: 'stripe',
    live: isLiveKey(settings.secretKey),
    verify: (body, signature) => verifiedEvent(verifySignature(body, signature, settings.webhookSecrets)),
    understands: isUsed,
    read: readEvent,
    isConnected: (connectedAccount) => isConnected(connected(), connectedAccount),
    consentUrl: (state, returnUrl) => consentUrl(settings, state, returnUrl),
    redeemConsent: (code) => redeemConsent(connected(), code),
    openCheckout: (order, feeFor) => openCheckout(connected(), order, feeFor),
    findCharge: (merchant, paymentRef) => findCharge(connected(), merchant, paymentRef),
    chargeRecords: (merchant, chargeRef) => chargeRecords(connected(), merchant, chargeRef),
    findInvoice: (merchant, invoiceRef) => findInvoice(connected(), merchant, invoiceRef),
    findSubscription: (merchant, subscriptionRef) => findSubscription(connected(), merchant, subscriptionRef),
    openSubscriptionPage: (...about) => openSubscriptionPage(connected(), ...about),
    findFee: (chargeRef) => findFee(connected(), chargeRef),
    refundFee: (feeRef, amountMinor, entryId) => refundFee(connected('once'), feeRef, amountMinor, entryId),
    listEvents: (merchant, since) => listEvents(connected(), merchant, since),
    inUsedVersion: (merchant, events) => inUsedVersion(connected(), merchant, events),
    webhookNeeds,
    createWebhook: (url) => createWebhook(connected(), url),
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
