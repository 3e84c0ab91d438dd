import { isDatabaseOutage } from '@licensing/database/problems'
import { startLoop } from '@licensing/process/loop'
import type { LoopOptions } from '@licensing/process/loop'
import { randomUUID } from 'node:crypto'
import { auditPartition, measureMissed } from './audit.ts'
import { consumeMissed } from './consume-missed.ts'
import type { MissedOutcome } from './consume-missed.ts'
import type { ConsumerOptions } from './consumer-options.ts'
import { leasePartitions, pruneConsumed, releasePartitions } from './consumer-queries.ts'
import { countMissed, listMissed } from './missed-queries.ts'
import type { MissedEvent } from './missed-queries.ts'
import { leaseMs, partitionCount } from './partitions.ts'
import { PartitionReader } from './partition-reader.ts'
import { streamOf } from '@licensing/proto/event-streams'
import { consumedKeptDays, ensureDeadLetterStream, hasStream } from './streams.ts'

export interface Consumer {
  /** The stream that it consumes. */
  readonly stream: string
  /** Partitions held by this replica. */
  held(): number[]
  /** Whether more events wait for this replica than those that it is consuming. */
  isBehind(): boolean
  /** Events that were never consumed, in the order of the stream, at most `limit`, and how many there are. */
  missed(limit: number): Promise<{ events: MissedEvent[]; count: number }>
  /** Consumes up to `limit` of those after a sequence. */
  consumeMissed(after: bigint, limit: number): Promise<MissedOutcome[]>
  stop(): Promise<void>
}

const renewMs = 1_500
const noStreamMs = 250
// NATS 2.9 scans the rest of a block for each message of a comparison: what is compared more often costs less in all.
const auditEveryMs = 10_000
const pruneEveryMs = 3_600_000

/**
 * Consumes another service's events, exactly once in effect and in order per partition. Partitions spread over the
 * replicas by leases; what one has done is fenced by the position that moves in the same transaction.
 */
export function startConsumer(options: ConsumerOptions): Consumer {
  const { sql, nats, log } = options
  const member = randomUUID()
  const readers = new Map<number, PartitionReader>()
  const stream = streamOf(options.source)
  const held = () => [...readers.keys()].sort((a, b) => a - b)

  const balance = async (signal: AbortSignal) => {
    await nats.whenConnected(signal)
    if (signal.aborted) return renewMs
    const leased = await leasePartitions(sql, { stream, member, leaseMs, partitionCount })
    for (const [partition, reader] of readers) {
      if (leased.includes(partition)) continue
      readers.delete(partition)
      await reader.stop()
    }
    const missing = leased.filter((partition) => !readers.has(partition))
    if (missing.length === 0) return renewMs
    const jsm = await nats.connection.jetstreamManager()
    // Its sender creates it.
    if (!(await hasStream(jsm, options.source))) return noStreamMs
    await ensureDeadLetterStream(jsm, options.streamReplicas)
    for (const partition of missing) {
      readers.set(partition, new PartitionReader(options, partition, member))
    }
    return renewMs
  }
  const auditMs = options.auditEveryMs ?? auditEveryMs
  const auditHeld = async (signal: AbortSignal) => {
    const partitions = held()
    // At a start there is nothing held yet.
    const nextMs = partitions.length > 0 ? auditMs : renewMs
    if (!nats.connected()) return nextMs
    for (const partition of partitions) await auditPartition(options, partition, signal)
    await measureMissed(options)
    return nextMs
  }
  const start = (everyMs: number, work: LoopOptions['work'], failure: string) =>
    startLoop({
      work,
      everyMs,
      failed: (error) => log.warn({ err: error, stream }, failure),
      isOutage: isDatabaseOutage,
      retry: { firstMs: Math.min(renewMs, everyMs), longestMs: everyMs },
    })
  const loops = [
    start(renewMs, balance, 'partitions could not be leased, trying again'),
    start(auditMs, auditHeld, 'stream could not be compared, trying again'),
    start(
      pruneEveryMs,
      () => pruneConsumed(sql, consumedKeptDays),
      'ids of consumed events could not be pruned, trying again',
    ),
  ]

  return {
    stream,
    held,
    isBehind: () => [...readers.values()].some((reader) => reader.isBehind),
    missed: async (limit) => ({
      events: await listMissed(sql, stream, 0n, limit),
      count: await countMissed(sql, stream),
    }),
    async consumeMissed(after, limit) {
      const outcomes = await consumeMissed(options, after, limit)
      await measureMissed(options)
      return outcomes
    },
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()))
      await Promise.all([...readers.values()].map((reader) => reader.stop()))
      await releasePartitions(sql, stream, member).catch((error: unknown) =>
        log.warn({ err: error }, 'partitions stay leased until their lease ends'),
      )
    },
  }
}
