import { ServiceError, invalid } from '@licensing/grpc/errors'
import { problemOfText, textLimits } from '@licensing/proto/text'
import { Stripe } from 'stripe'
import { usedEventTypes } from './events.ts'
import { answerTo, messageOf } from './failures.ts'

/** The longest time between the signature and now, in both directions, in seconds (decisions 7). */
const toleranceSeconds = 300

/**
 * Checks the signature of a webhook with each secret, and its age in both directions: Stripe's library only refuses
 * signatures that are too old.
 *
 * @throws ServiceError `bad_request` if the signature, its age or the body is not valid
 */
export function verifySignature(
  body: Uint8Array,
  header: string | undefined,
  secrets: string[],
  nowMs = Date.now(),
): Stripe.Event {
  if (secrets.length === 0) {
    throw new ServiceError('unavailable', 'no webhook secret is configured, so no event can be verified')
  }
  const event = header === undefined ? undefined : firstVerified(body, header, secrets, nowMs)
  if (header === undefined || !event || !(Math.abs(nowMs / 1000 - signedAt(header)) <= toleranceSeconds)) {
    throw new ServiceError(
      'bad_request',
      'the signature does not match the body, or its timestamp is too far from the present',
    )
  }
  if (!isEvent(event)) throw new ServiceError('bad_request', 'the body is not an event')
  return event
}

// A signed event may still contain ids that cannot be stored.
function isEvent({ id, type, account }: { id: unknown; type: unknown; account?: unknown }): boolean {
  return isName(id) && isName(type) && (account === undefined || account === null || isName(account))
}

function isName(value: unknown): boolean {
  return typeof value === 'string' && problemOfText(value, textLimits.processorId) === undefined
}

function firstVerified(
  body: Uint8Array,
  header: string,
  secrets: string[],
  nowMs: number,
): Stripe.Event | undefined {
  for (const secret of secrets) {
    try {
      return Stripe.webhooks.constructEvent(
        Buffer.from(body),
        header,
        secret,
        toleranceSeconds,
        undefined,
        nowMs,
      )
    } catch {
      // After any error the event is not verified; malformed headers and bodies that are not JSON cause errors, too.
    }
  }
  return undefined
}

// The last `t`, as in the library. If there is none, the result is NaN, which is never in range.
function signedAt(header: string): number {
  const times = header.split(',').filter((part) => part.startsWith('t='))
  return Number(times.at(-1)?.slice(2))
}

/** The settings of the platform's webhook endpoint at Stripe. */
export function webhookNeeds(): { apiVersion: string; eventTypes: string[] } {
  return { apiVersion: Stripe.API_VERSION, eventTypes: usedEventTypes }
}

/** Creates an endpoint for the events of all connected accounts. */
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
