import { createHmac } from 'node:crypto'
import { contextFrom, inSpan } from '@licensing/process/telemetry'
import type { WebhookSignature } from '@licensing/proto/closed-sets'
import type { AttemptResult, Sender } from '../http-client/sender.ts'
import type { NextAttempt } from './scheduler.ts'

export type Signed = {
  signature: WebhookSignature
  /** The secret, and while it is being rotated the former one. */
  secrets: readonly string[]
  eventId: string
  body: Buffer
  /** The time of this attempt, so that receivers do not reject a late retry as a replayed request. */
  unixSeconds: number
}

/** The headers that sign an attempt, names and values in turn, with a signature for each secret. */
const signatureHeaders = {
  /** docs/guides/webhooks.md, "Verify the signature": HMAC-SHA256 over `<t>.<raw body>`, keyed with the whole secret as UTF-8, its prefix included. */
  default({ secrets, body, unixSeconds }) {
    const macs = secrets.map((secret) => mac(secret, `${unixSeconds}.`, body).digest('hex'))
    return ['Webhook-Signature', [`t=${unixSeconds}`, ...macs.map((hex) => `v1=${hex}`)].join(',')]
  },
  /** docs/guides/webhooks.md, "Standard Webhooks". */
  standard({ secrets, eventId, body, unixSeconds }) {
    const macs = secrets.map((secret) => {
      const key = Buffer.from(secret.slice(secretPrefix.length), 'base64')
      return mac(key, `${eventId}.${unixSeconds}.`, body).digest('base64')
    })
    const signatures = macs.map((base64) => `v1,${base64}`).join(' ')
    return ['Webhook-Timestamp', String(unixSeconds), 'Webhook-Signature', signatures]
  },
} satisfies Record<WebhookSignature, (signed: Signed) => string[]>

const secretPrefix = 'whsec_'

const mac = (key: string | Buffer, head: string, body: Buffer) =>
  createHmac('sha256', key).update(head).update(body)

/** The headers of one attempt, names and values in turn. */
export function deliveryHeaders(
  signed: Signed & {
    attempt: number
    /** Headers of the vendor, names and values in turn. */
    headers: readonly string[]
  },
): string[] {
  return [
    'Content-Type',
    'application/json',
    'User-Agent',
    'Licensing-Webhooks/1.0',
    'Webhook-Id',
    signed.eventId,
    'Webhook-Attempt',
    String(signed.attempt),
    ...signatureHeaders[signed.signature](signed),
    ...signed.headers,
  ]
}

/** Sends a delivery once, signed with the current secrets and time, as a span of the trace that caused its event. */
export async function attempt(
  sender: Sender,
  { claimed, settings }: NextAttempt,
  now: Date,
): Promise<AttemptResult> {
  const { delivery } = claimed
  const body = Buffer.from(delivery.body)
  const { signature, secret, former, headers: own } = settings
  const headers = deliveryHeaders({
    signature,
    secrets: former && now < former.until ? [secret, former.secret] : [secret],
    eventId: delivery.event_id,
    body,
    unixSeconds: Math.floor(now.getTime() / 1000),
    attempt: delivery.attempt_count + 1,
    headers: own,
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
