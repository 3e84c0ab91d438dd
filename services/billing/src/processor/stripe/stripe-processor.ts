import { ServiceError } from '@licensing/grpc/errors'
import type { Stripe } from 'stripe'
import type { VerifiedEvent } from '../processor.ts'
import { consentUrl, isConnected, redeemConsent } from './accounts.ts'
import { openCheckout } from './checkout.ts'
import { isLiveKey, merchantOf, newStripeClient } from './client.ts'
import type { StripeSettings } from './client.ts'
import { isUsed, readEvent } from './events.ts'
import { findFee, refundFee } from './fees.ts'
import { inUsedVersion, listEvents } from './listed-events.ts'
import { chargeRecords, findCharge, findInvoice, findSubscription } from './look-ups.ts'
import { verifySignature, createWebhook, webhookNeeds } from './webhooks.ts'

export type PaymentProcessor = ReturnType<typeof stripeProcessor>

/**
 * Stripe as the payment processor. Only this folder knows Stripe's objects. A look-up returns undefined if Stripe says that
 * there is no such object, and rejects if Stripe does not answer or refuses.
 */
export function stripeProcessor(settings: StripeSettings) {
  const clients = { usual: newStripeClient(settings), once: newStripeClient(settings, { once: true }) }
  const using =
    <Rest extends unknown[], Result>(
      call: (stripe: Stripe, ...rest: Rest) => Result,
      kind: keyof typeof clients = 'usual',
    ) =>
    (...rest: Rest): Result => {
      const client = clients[kind]
      if (client) return call(client, ...rest)
      throw new ServiceError('unavailable', 'no payment processor is configured')
    }
  return {
    name: 'stripe' as const,
    /** Whether real money moves. */
    live: isLiveKey(settings.secretKey),
    verify: (body: Uint8Array, signature: string | undefined) =>
      verifiedEvent(verifySignature(body, signature, settings.webhookSecrets)),
    understands: isUsed,
    read: readEvent,
    isConnected: using(isConnected),
    consentUrl: (state: string, returnUrl: string) => consentUrl(settings, state, returnUrl),
    redeemConsent: using(redeemConsent),
    openCheckout: using(openCheckout),
    findCharge: using(findCharge),
    chargeRecords: using(chargeRecords),
    findInvoice: using(findInvoice),
    findSubscription: using(findSubscription),
    findFee: using(findFee),
    // A request is never repeated: if the answer is lost, `findFee` says whether it took effect.
    refundFee: using(refundFee, 'once'),
    listEvents: using(listEvents),
    inUsedVersion: using(inUsedVersion),
    webhookNeeds,
    createWebhook: using(createWebhook),
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
