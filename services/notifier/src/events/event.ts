import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Event } from '@licensing/proto/events'
import type { toWebhook } from '@licensing/proto/webhook-events'

/** Date of the event schema (interface 9). */
const apiVersion = '2026-11-01'

type Webhook = NonNullable<ReturnType<typeof toWebhook>>

/** The envelope of interface 6.1. Made once: its bytes are what every attempt sends and what is signed. */
export function envelope(event: Event, webhook: Webhook, sequence: bigint): string {
  return JSON.stringify({
    id: event.id,
    type: webhook.type,
    api_version: apiVersion,
    created_at: (event.occurredAt ? timestampDate(event.occurredAt) : new Date()).toISOString(),
    sequence: Number(sequence),
    account_id: event.accountId,
    application_id: event.applicationId,
    data: { object: webhook.object },
    previous: webhook.previous,
  })
}

/** `created_at` of an envelope that `envelope` made; `otherwise` where the text is none. */
export function happenedAt(body: string, otherwise: Date): Date {
  const [, text] = /"created_at":"([^"]+)"/.exec(body) ?? []
  return text === undefined ? otherwise : new Date(text)
}

/** Interface 6.3: payloads are kept so long; the record of the delivery stays. */
export const payloadDays = 90

const dayMs = 86_400_000

/** Payloads of events recorded before this are past retention, whether their partition is dropped yet or not. */
export function keptSince(now: Date): Date {
  return new Date(now.getTime() - payloadDays * dayMs)
}
