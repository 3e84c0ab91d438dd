import { fromBinary } from '@bufbuild/protobuf'
import type { Nats } from '@licensing/events/connection'
import { streamOf } from '@licensing/events/streams'
import { createLogger } from '@licensing/process/log'
import { EventSchema } from '@licensing/proto/events'
import type { Event } from '@licensing/proto/events'
import { toWebhook } from '@licensing/proto/webhook-events'
import { startLoop } from '../loop.ts'

/** What vendors are told, as the streams have it; each event once, however often it was published. */
export interface EventLog {
  /** Of one account, in the order of each service: `{type, …data.object}`. */
  of(accountId: string): ({ type: string } & Record<string, unknown>)[]
  /** All of one account, internal ones too. */
  raw(accountId: string): Event[]
  stop(): Promise<void>
}

const pollMs = 20

export function startEventLog(nats: Nats): EventLog {
  const events = new Map<string, Event>()
  const next = new Map<'billing' | 'licensing', number>([
    ['billing', 1],
    ['licensing', 1],
  ])
  let manager: Awaited<ReturnType<Nats['connection']['jetstreamManager']>> | undefined
  const loop = startLoop(
    'event log',
    createLogger('event-log', 'silent'),
    async (signal) => {
      manager ??= await nats.connection.jetstreamManager()
      for (const [source, from] of next) {
        for (let seq = from; !signal.aborted; seq += 1) {
          const message = await manager.streams.getMessage(streamOf(source), { seq }).catch(() => undefined)
          if (!message) break
          const event = fromBinary(EventSchema, message.data)
          events.set(event.id, event)
          next.set(source, seq + 1)
        }
      }
      return pollMs
    },
    pollMs,
  )
  const raw = (accountId: string) => [...events.values()].filter((event) => event.accountId === accountId)
  return {
    raw,
    of: (accountId) =>
      raw(accountId).flatMap((event) => {
        const webhook = toWebhook(event)
        return webhook ? [{ type: webhook.type, ...webhook.object }] : []
      }),
    stop: () => loop.stop(),
  }
}
