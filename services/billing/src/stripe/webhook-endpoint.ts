import { invalid } from '@licensing/grpc/errors'
import { Stripe } from 'stripe'
import { usedEventTypes } from './events.ts'
import { answerTo, messageOf } from './failures.ts'

/** What the platform's endpoint at Stripe has to be set to. */
export function webhookNeeds(): { apiVersion: string; eventTypes: string[] } {
  return { apiVersion: Stripe.API_VERSION, eventTypes: usedEventTypes }
}

/** An endpoint for the events of all connected accounts. */
export async function createWebhook(stripe: Stripe, url: string): Promise<{ id: string; secret: string }> {
  try {
    const endpoint = await stripe.webhookEndpoints.create({
      url,
      connect: true,
      api_version: Stripe.API_VERSION,
      enabled_events: usedEventTypes as Stripe.WebhookEndpointCreateParams.EnabledEvent[],
    })
    return { id: endpoint.id, secret: endpoint.secret ?? '' }
  } catch (error) {
    throw answerTo(error, (refused) =>
      invalid('/url', `the payment processor refused this address: ${messageOf(refused)}`),
    )
  }
}
