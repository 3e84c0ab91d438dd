import { isDatabaseOutage } from '@licensing/database/problems'
import { startLoop } from '@licensing/process/loop'
import { streamOf } from '@licensing/proto/event-streams'
import { randomUUID } from 'node:crypto'
import { Gauge } from 'prom-client'
import type { ConsumerOptions } from './consumer-options.ts'
import { isAfter, leasePartitions, listPositions, releasePartitions } from './consumer-queries.ts'
import type { BatchPlace } from './consumer-queries.ts'
import { LogClient } from './log-client.ts'
import type { LogAnswer } from './log-client.ts'
import { PartitionReader } from './partition-reader.ts'
import { firstPartitions, pollMs, renewMs, startMs } from './partitions.ts'

// Positions are reported after so many events, because a producer numbers no more events of an account if many are unconfirmed.
const reportFrom = 25

export interface Consumer {
  /** Partitions held by this replica. */
  held(): number[]
  /**
   * Whether all replicas of this service together have consumed the events that the producer's log had when this replica
   * started. While the producer is unavailable, the events in JetStream count instead.
   */
  hasCaughtUp(): Promise<boolean>
  stop(): Promise<void>
}

const behind = new Gauge({
  name: 'events_behind',
  help: 'Batches in the producer’s log that this replica has not consumed, of the partitions that it reads',
  labelNames: ['stream'],
})

/**
 * Consumes another service's events, exactly once in effect and in order per partition. Leases distribute the partitions
 * over the replicas. The position in PostgreSQL moves in the transaction of the effects, so a replica that has lost its
 * lease without noticing cannot commit.
 */
export function startConsumer(options: ConsumerOptions): Consumer {
  const { sql, nats, log, service, source } = options
  const member = randomUUID()
  const startedAt = performance.now()
  const readers = new Map<number, PartitionReader>()
  const producer = new LogClient(nats, source, service)
  const stream = streamOf(source)
  let unreported = 0
  const positionsNow = () => [...readers].map(([partition, { position }]) => ({ ...position, partition }))
  const reading: ConsumerOptions = {
    ...options,
    handle: async (tx, events) => {
      const afterCommit = await options.handle(tx, events)
      return () => {
        afterCommit?.()
        unreported += events.length
        if (unreported < reportFrom) return
        unreported = 0
        producer.report(positionsNow())
      }
    },
    committed: () => {
      options.committed?.()
      polling.wakeIn(pollMs)
    },
  }
  let newest: LogAnswer | undefined
  let newestAtStart: BatchPlace[] | undefined

  const balance = async (signal: AbortSignal) => {
    await nats.whenConnected(signal)
    if (signal.aborted) return
    const passed = new Map([...readers].map(([partition, { position }]) => [partition, position]))
    const held = await leasePartitions(sql, source, member, newest)
    for (const [partition, reader] of readers) {
      // A position lower than before: this service's database was restored to an earlier state, and its effects are missing.
      const position = held.find((each) => each.partition === partition)
      if (position && !isAfter(passed.get(partition)!, position)) continue
      readers.delete(partition)
      await reader.stop()
    }
    for (const position of held) {
      const { partition } = position
      if (readers.has(partition)) continue
      readers.set(partition, new PartitionReader(reading, producer, { source, partition, member }, position))
      polling.wakeIn(pollMs)
    }
  }
  /** Reports the positions, and makes the readers read batches from the log that JetStream has not sent. */
  const poll = async (signal: AbortSignal) => {
    await nats.whenConnected(signal)
    if (signal.aborted) return
    const positions = positionsNow()
    const answer = await producer.read(positions).catch((error: unknown) => {
      if (performance.now() >= startedAt + startMs) throw error
    })
    if (!answer) return
    const { epoch, numbers } = answer
    if (numbers.length > (newest?.numbers.length ?? firstPartitions)) balancing.wake()
    newest = answer
    newestAtStart ??= numbers.map((number) => ({ epoch, number }))
    for (const [partition, reader] of readers) reader.announce({ epoch, number: numbers[partition] ?? 0n })
    const left = positions.map(({ partition, number }) =>
      Math.max(0, Number((numbers[partition] ?? 0n) - number)),
    )
    behind.set(
      { stream },
      left.reduce((sum, each) => sum + each, 0),
    )
    // A commit ends the longer pauses.
    return left.every((each) => each === 0) ? 'idle' : undefined
  }
  const polling = startLoop({
    work: poll,
    everyMs: pollMs,
    failed: (error) =>
      log.warn(
        { err: error, stream },
        'the producer does not answer: events that JetStream lost wait until it does',
      ),
    isOutage: () => true,
  })
  const balancing = startLoop({
    work: balance,
    everyMs: renewMs,
    failed: (error) => log.warn({ err: error, stream }, 'partitions could not be leased, trying again'),
    isOutage: isDatabaseOutage,
  })
  const ignoreReconnects = nats.onReconnect(() => {
    for (const reader of readers.values()) reader.reopen()
    polling.wake()
  })

  return {
    held: () => [...readers.keys()].sort((a, b) => a - b),
    async hasCaughtUp() {
      const positions = await listPositions(sql, source)
      if (newestAtStart) {
        return newestAtStart.every((end, partition) => {
          const position = positions.find((each) => each.partition === partition)
          return position !== undefined && !isAfter(end, position)
        })
      }
      return (
        positions.length >= firstPartitions &&
        positions.every(({ partition, holder }) =>
          holder === member ? readers.get(partition)?.isDrained === true : holder !== null,
        )
      )
    },
    async stop() {
      ignoreReconnects()
      await Promise.all([polling.stop(), balancing.stop()])
      await Promise.all([...readers.values()].map((reader) => reader.stop()))
      await releasePartitions(sql, source, member).catch((error: unknown) =>
        log.warn({ err: error }, 'partitions could not be released: their leases end later'),
      )
    },
  }
}
