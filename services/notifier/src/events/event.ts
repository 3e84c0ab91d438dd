import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Event } from '@licensing/proto/events'
import type { toWebhook } from '@licensing/proto/webhook-events'
import { currentTime } from '@licensing/process/clock'

/** Date of the event schema (docs/guides/versioning.md, "Versions"). */
const apiVersion = '2026-11-01'

type Webhook = NonNullable<ReturnType<typeof toWebhook>>

/** The envelope (docs/guides/events.md, "Events"). It is built once: every attempt sends and signs the same bytes. */
export function envelope(event: Event, webhook: Webhook, sequence: bigint): string {
  return JSON.stringify({
    id: event.id,
    type: webhook.type,
    api_version: apiVersion,
    created_at: (event.occurredAt ? timestampDate(event.occurredAt) : currentTime()).toISOString(),
    sequence: Number(sequence),
    account_id: event.accountId,
    application_id: event.applicationId,
    data: { object: webhook.object },
    previous: webhook.previous,
  })
}

/** `created_at` of an envelope; `otherwise` if the text is not an envelope. */
export function happenedAt(body: string, otherwise: Date): Date {
  const [, text] = /"created_at":"([^"]+)"/.exec(body) ?? []
  return text === undefined ? otherwise : new Date(text)
}
