import { transaction } from '@licensing/database/transaction'
import type { JetStreamManager } from 'nats'
import type { ConsumerOptions } from './consumer-options.ts'
import { recordConsumed } from './consumer-queries.ts'
import { listMissed, removeMissed } from './missed-queries.ts'
import type { MissedEvent } from './missed-queries.ts'
import { decode } from './received.ts'
import { streamOf } from '@licensing/proto/event-streams'
import { isNotFound } from './streams.ts'

/** What became of a missed event; `failure` says why it was not consumed. */
export interface MissedOutcome {
  event: MissedEvent
  failure?: string
}

/**
 * Consumes missed events, each in a transaction of its own, in the order of the stream. One that was consumed since
 * it was found has no second effect. One that fails stays on the list.
 */
export async function consumeMissed(
  options: ConsumerOptions,
  after: bigint,
  limit: number,
): Promise<MissedOutcome[]> {
  const stream = streamOf(options.source)
  const manager = await options.nats.connection.jetstreamManager()
  const outcomes: MissedOutcome[] = []
  for (const event of await listMissed(options.sql, stream, after, limit)) {
    try {
      outcomes.push({ event, ...(await consumeOne(options, manager, event)) })
    } catch (error) {
      if (options.isTransient(error)) throw error
      options.log.error({ err: error, stream, seq: event.seq }, 'missed event could not be consumed')
      outcomes.push({ event, failure: 'its handling failed: see the log of this service' })
    }
  }
  return outcomes
}

async function consumeOne(
  { sql, handle, committed }: ConsumerOptions,
  manager: JetStreamManager,
  { stream, seq }: MissedEvent,
): Promise<{ failure?: string }> {
  const message = await manager.streams.getMessage(stream, { seq: Number(seq) }).catch((error: unknown) => {
    if (isNotFound(error)) return undefined
    throw error
  })
  if (!message) return { failure: 'the stream no longer holds it' }
  const received = decode({ data: message.data, headers: message.header })
  const afterCommit = await transaction(sql, async (tx) => {
    const fresh = await recordConsumed(tx, [received.event.id])
    await removeMissed(tx, stream, [seq])
    return fresh.size > 0 ? await handle(tx, [received]) : undefined
  })
  afterCommit?.()
  committed?.()
  return {}
}
