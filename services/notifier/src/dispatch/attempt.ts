import { createHmac } from 'node:crypto'
import { contextFrom, inSpan } from '@licensing/process/telemetry'
import type { AttemptResult, Sender } from '../http-client/sender.ts'
import type { NextAttempt } from './scheduler.ts'

export type Signed = {
  secret: string
  body: Buffer
  /** The time of this attempt, so that receivers do not reject a late retry as a replayed request. */
  unixSeconds: number
}

/** docs/guides/webhooks.md, "Verify the signature": HMAC-SHA256 over `<t>.<raw body>`, keyed with the whole secret as UTF-8, its prefix included. */
export function signature({ secret, body, unixSeconds }: Signed): string {
  const mac = createHmac('sha256', secret).update(`${unixSeconds}.`).update(body).digest('hex')
  return `t=${unixSeconds},v1=${mac}`
}

/** The headers of one attempt, names and values in turn. */
export function deliveryHeaders({
  eventId,
  attempt,
  ...signed
}: Signed & { eventId: string; attempt: number }): string[] {
  return [
    'Content-Type',
    'application/json',
    'User-Agent',
    'Licensing-Webhooks/1.0',
    'Webhook-Id',
    eventId,
    'Webhook-Attempt',
    String(attempt),
    'Webhook-Signature',
    signature(signed),
  ]
}

/** Sends a delivery once, signed with the current secret and time, as a span of the trace that caused its event. */
export async function attempt(
  sender: Sender,
  { claimed, settings }: NextAttempt,
  now: Date,
): Promise<AttemptResult> {
  const { delivery } = claimed
  const body = Buffer.from(delivery.body)
  const headers = deliveryHeaders({
    secret: settings.secret,
    body,
    unixSeconds: Math.floor(now.getTime() / 1000),
    eventId: delivery.event_id,
    attempt: delivery.attempt_count + 1,
  })
  const send = () => sender.send({ endpointId: settings.id, url: settings.url, headers, body })
  if (delivery.trace_parent === null) return send()
  const attributes = {
    'webhook.event_id': delivery.event_id,
    'webhook.delivery_id': delivery.id,
    'webhook.endpoint_id': settings.id,
    'webhook.attempt': delivery.attempt_count + 1,
  }
  return inSpan(
    'webhook attempt',
    { attributes },
    contextFrom({ traceparent: delivery.trace_parent }),
    async (span) => {
      const result = await send()
      if (result.responseCode !== null) span?.setAttribute('http.response.status_code', result.responseCode)
      if (result.error !== null) span?.setAttribute('error.type', result.error)
      return result
    },
  )
}
