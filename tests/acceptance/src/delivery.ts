import type { HttpsReceiver, ReceivedRequest } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto'
import { expect } from 'vitest'
import { expectStatus } from './vendor.ts'
import type { Vendor } from './vendor.ts'

interface Endpoint {
  id: string
  url: string
  subscribed_events: string
  status: string
}

export interface Envelope {
  id: string
  type: string
  created_at: string
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
  licence_id: string | null
  status: string
  attempt_count: number
  next_attempt_at: string | null
  last_response_code: number | null
  created_at: string
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

/** An endpoint of an application, at its own path of the receiver. */
export async function givenEndpoint({ api, app }: Vendor, receiver: HttpsReceiver, events = '*') {
  const path = `/hook-${randomUUID()}`
  const made = await api.post<Endpoint & { secret: string }>(`${app}/webhook-endpoints`, {
    body: { url: receiver.url(path), subscribed_events: events },
  })
  expectStatus(made, 201)
  const arrived = () => receiver.requests.filter((request) => request.path === path)
  return {
    ...made.body,
    path,
    at: `${app}/webhook-endpoints/${made.body.id}`,
    arrived,
    /** The events that arrived, by their sequence. */
    events: () =>
      arrived()
        .map(envelopeOf)
        .toSorted((a, b) => a.sequence - b.sequence),
    /** Waits until this many deliveries have arrived. */
    next: (count: number) =>
      eventually(() => {
        expect(arrived().length).toBeGreaterThanOrEqual(count)
        return arrived()
      }),
  }
}

export const envelopeOf = (request: ReceivedRequest) => JSON.parse(request.body.toString()) as Envelope

/** The parts of `Webhook-Signature`. Throws if the header does not have the format of docs/guides/webhooks.md, "Receive deliveries". */
export function signatureOf(request: ReceivedRequest): { time: number; hex: string } {
  const header = String(request.headers['webhook-signature'])
  const parts = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(header)
  if (!parts) throw new Error(`Webhook-Signature has an invalid format: ${header}`)
  return { time: Number(parts[1]), hex: parts[2]! }
}

/** Whether the raw bytes are signed with this secret, as a vendor's backend checks it. */
export function verifies(request: ReceivedRequest, secret: string): boolean {
  const { time, hex } = signatureOf(request)
  const expected = createHmac('sha256', secret).update(`${time}.`).update(request.body).digest()
  return timingSafeEqual(expected, Buffer.from(hex, 'hex'))
}
