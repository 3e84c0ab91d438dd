import { ServiceError, invalid } from '@licensing/grpc/errors'
import { problemOfText, textLimits } from '@licensing/proto/text'
import { Stripe } from 'stripe'
import { currentMs } from '@licensing/process/clock'
import { usedEventTypes } from './events.ts'
import { answerTo, refusalText } from './failures.ts'

/** The longest time between the signature and now, in both directions, in seconds (docs/operations/security.md, "Authentication"). */
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
  nowMs = currentMs(),
): Stripe.Event {
  if (secrets.length === 0) {
    throw new ServiceError('unavailable', 'no webhook secret is configured, so no event can be verified')
  }
  const isSigned = header !== undefined && secrets.some((secret) => isSignedWith(secret, body, header, nowMs))
  if (!isSigned || !(Math.abs(nowMs / 1000 - signedAt(header)) <= toleranceSeconds)) {
    throw new ServiceError(
      'bad_request',
      'the signature does not match the body, or its timestamp is too far from the present',
    )
  }
  const event = parsed(body)
  if (event?.object === 'v2.core.event') {
    throw new ServiceError(
      'bad_request',
      'this is a thin event, which is not used: set the payload style of the endpoint at Stripe to "snapshot", or create the endpoint with licensing-admin processor-webhook --create',
    )
  }
  if (!event || !isEvent(event)) throw new ServiceError('bad_request', 'the body is not an event')
  return event as Stripe.Event
}

function parsed(body: Uint8Array): Record<'id' | 'type' | 'account' | 'object', unknown> | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(body).toString('utf8'))
    return typeof value === 'object' && value !== null ? (value as ReturnType<typeof parsed>) : undefined
  } catch {
    return undefined
  }
}

// A signed event may still contain ids that cannot be stored.
function isEvent({ id, type, account }: { id: unknown; type: unknown; account?: unknown }): boolean {
  return isName(id) && isName(type) && (account === undefined || account === null || isName(account))
}

function isName(value: unknown): boolean {
  return typeof value === 'string' && problemOfText(value, textLimits.processorId) === undefined
}

function isSignedWith(secret: string, body: Uint8Array, header: string, nowMs: number): boolean {
  try {
    const { signature } = Stripe.webhooks
    return signature!.verifyHeader(body, header, secret, toleranceSeconds, undefined, nowMs)
  } catch {
    // The library also throws for a malformed header.
    return false
  }
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
    throw answerTo(error, (refused) => invalid('/url', refusalText('this address', refused)))
  }
}
