import { fromBinary } from '@bufbuild/protobuf'
import type { Nats } from '@licensing/events/connection'
import { EventSchema } from '@licensing/proto/events'
import type { Event } from '@licensing/proto/events'
import { toWebhook } from '@licensing/proto/webhook-events'

/** What vendors are told, as it goes over NATS; each event once, however often it is published. */
export interface EventLog {
  /** Of one account, in the order of arrival: `{type, …data.object}`. */
  of(accountId: string): ({ type: string } & Record<string, unknown>)[]
  /** All of one account, internal ones too. */
  raw(accountId: string): Event[]
}

export function startEventLog(nats: Nats): EventLog {
  const events = new Map<string, Event>()
  nats.connection.subscribe('events.>', {
    callback: (error, message) => {
      if (error) throw error
      const event = fromBinary(EventSchema, message.data)
      if (!events.has(event.id)) events.set(event.id, event)
    },
  })
  const raw = (accountId: string) => [...events.values()].filter((event) => event.accountId === accountId)
  return {
    raw,
    of: (accountId) =>
      raw(accountId).flatMap((event) => {
        const webhook = toWebhook(event)
        return webhook ? [{ type: webhook.type, ...webhook.object }] : []
      }),
  }
}
