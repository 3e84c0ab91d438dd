import type { JetStreamManager, JsMsg } from 'nats'
import { pause } from '@licensing/process/loop'
import { Gauge } from 'prom-client'
import type { ConsumerOptions } from './consumer-options.ts'
import { openFeed } from './feed.ts'
import { countMissed, findAuditRange, recordAudited } from './missed-queries.ts'
import { eventIdOf } from './received.ts'
import { streamOf } from '@licensing/proto/event-streams'

// All events wait while a part is read: of 10,000 messages NATS 2.9 takes 0.24 ms for each, 2.10 a tenth of it. So parts are
// small, and three quarters of the time are left to others.
const chunkSize = 25
const restsPerRead = 3

const missed = new Gauge({
  name: 'events_missed',
  help: 'Events that a stream holds and that were never consumed: run licensing-admin missed-events',
  labelNames: ['stream'],
})

/**
 * Compares what a partition of the stream holds, up to the position, with the ids of the events that were consumed.
 * Whatever made the position pass an event, this finds it.
 *
 * @throws Interrupted, Hole: what was compared until then stands
 */
export async function auditPartition(
  options: ConsumerOptions,
  partition: number,
  signal: AbortSignal,
): Promise<void> {
  const { sql, nats, service, source, log } = options
  const stream = streamOf(source)
  const manager = await nats.connection.jetstreamManager()
  const { created } = await manager.streams.info(stream)
  const { after, upTo } = await findAuditRange(sql, stream, partition, created)
  if (after >= upTo) return
  const feed = await openFeed({
    nats,
    source,
    partition,
    service: `${service}-audit`,
    after,
    headersOnly: true,
    atOnce: chunkSize,
    signal,
  })
  try {
    let found = 0
    for (let read = 0, reached = 0n; read < feed.waiting && reached < upTo && !signal.aborted;) {
      const startedAt = performance.now()
      const batch = await feed.next(chunkSize)
      if (batch.length === 0) break
      read += batch.length
      reached = BigInt(batch.at(-1)!.seq)
      const consumed = batch.filter(({ seq }) => BigInt(seq) <= upTo)
      found += await recordAudited(sql, {
        stream,
        partition,
        upTo: reached < upTo ? reached : upTo,
        messages: await identify(manager, stream, consumed),
      })
      await pause(restsPerRead * (performance.now() - startedAt), signal)
    }
    if (found > 0) log.error({ stream, partition, found }, 'events were never consumed: see the runbook')
  } finally {
    feed.close()
  }
}

/** Brings the alarm up to date. */
export async function measureMissed({ sql, source }: Pick<ConsumerOptions, 'sql' | 'source'>): Promise<void> {
  const stream = streamOf(source)
  missed.set({ stream }, await countMissed(sql, stream))
}

async function identify(
  manager: JetStreamManager,
  stream: string,
  messages: JsMsg[],
): Promise<{ seq: number; eventId: string }[]> {
  const identified: { seq: number; eventId: string }[] = []
  for (const message of messages) {
    let eventId = eventIdOf(message)
    if (!eventId) {
      // An operator published it by hand: only the payload tells.
      const { data, header } = await manager.streams.getMessage(stream, { seq: message.seq })
      eventId = eventIdOf({ data, headers: header })
    }
    if (eventId) identified.push({ seq: message.seq, eventId })
  }
  return identified
}
