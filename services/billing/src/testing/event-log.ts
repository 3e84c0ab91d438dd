import { fromBinary } from '@bufbuild/protobuf'
import type { Nats } from '@licensing/events/connection'
import { streamOf } from '@licensing/proto/event-streams'
import { startLoop } from '@licensing/process/loop'
import { EventSchema } from '@licensing/proto/events'
import type { Event } from '@licensing/proto/events'
import { toWebhook } from '@licensing/proto/webhook-events'
import { eventually } from '@licensing/test-support/poll'

/** What vendors are sent, as the streams have it; each event once, however often it was published. */
export interface EventLog {
  /** Of one account, in the order of each service: `{type, …data.object}`. */
  of(accountId: string): ({ type: string } & Record<string, unknown>)[]
  /** All of one account, internal ones too. */
  raw(accountId: string): Event[]
  /** Resolves when all is read that the streams had at the time of the call. */
  caughtUp(): Promise<void>
  stop(): Promise<void>
}

const pollMs = 20

export function startEventLog(nats: Nats): EventLog {
  const events = new Map<string, Event>()
  const next = new Map<'billing' | 'licensing', number>([
    ['billing', 1],
    ['licensing', 1],
  ])
  const managing = () => nats.connection.jetstreamManager({ checkAPI: false })
  const lastOf = async (source: 'billing' | 'licensing') => {
    const { streams } = await managing()
    return (await streams.info(streamOf(source)).catch(() => undefined))?.state.last_seq ?? 0
  }
  const loop = startLoop({
    work: async (signal) => {
      const { streams } = await managing()
      for (const [source, from] of next) {
        // NATS 2.9 crashes if it is asked for a message of a stream that is being created.
        const last = await lastOf(source)
        for (let seq = from; seq <= last && !signal.aborted; seq += 1) {
          const message = await streams.getMessage(streamOf(source), { seq }).catch(() => undefined)
          if (!message) break
          const event = fromBinary(EventSchema, message.data)
          events.set(event.id, event)
          next.set(source, seq + 1)
        }
      }
    },
    everyMs: pollMs,
    failed: () => {},
    isOutage: () => false,
    retry: { firstMs: pollMs, longestMs: pollMs },
  })
  const raw = (accountId: string) => [...events.values()].filter((event) => event.accountId === accountId)
  return {
    raw,
    async caughtUp() {
      for (const source of next.keys()) {
        const last = await lastOf(source)
        await eventually(() => next.get(source)! > last)
      }
    },
    of: (accountId) =>
      raw(accountId).flatMap((event) => {
        const webhook = toWebhook(event)
        return webhook ? [{ type: webhook.type, ...webhook.object }] : []
      }),
    stop: () => loop.stop(),
  }
}
