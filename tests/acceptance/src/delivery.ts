import type { ReceivedRequest } from '@licensing/test-support/https-receiver'
import { createHmac, timingSafeEqual } from 'node:crypto'

export interface Endpoint {
  id: string
  url: string
  subscribed_events: string
  status: string
}

export interface Envelope {
  id: string
  type: string
  sequence: number
  application_id: string
  data: { object: Record<string, unknown> }
  previous: { plan_id: string } | null
}

export interface Delivery {
  id: string
  event_id: string
  event_type: string
  endpoint_id: string
  status: string
  attempt_count: number
  next_attempt_at: string | null
  last_response_code: number | null
}

export interface DeliveryDetail extends Delivery {
  payload: string | null
  attempts: {
    attempt: number
    at: string
    response_code: number | null
    error: string | null
    duration_ms: number
    response_excerpt: string | null
  }[]
}

/** The parts of `Webhook-Signature`. Throws if the header does not have the format of interface section 5. */
export function signatureOf(request: ReceivedRequest): { time: number; hex: string } {
  const parts = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(request.headers['webhook-signature']))
  if (!parts)
    throw new Error(
      `Webhook-Signature has an invalid format: ${String(request.headers['webhook-signature'])}`,
    )
  return { time: Number(parts[1]), hex: parts[2]! }
}

/** Whether the raw bytes are signed with this secret, as a vendor's backend checks it. */
export function verifies(request: ReceivedRequest, secret: string): boolean {
  const { time, hex } = signatureOf(request)
  const expected = createHmac('sha256', secret).update(`${time}.`).update(request.body).digest()
  return timingSafeEqual(expected, Buffer.from(hex, 'hex'))
}
