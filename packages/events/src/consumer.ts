import { randomUUID } from 'node:crypto'
import type { ConsumerOptions } from './consumer-options.ts'
import { leasePartitions, releasePartitions } from './consumer-queries.ts'
import { leaseMs } from './lease.ts'
import { partitionCount } from './partitions.ts'
import { PartitionReader } from './partition-reader.ts'
import { pause } from './pause.ts'
import { ensureDeadLetterStream, ensureStream, streamOf } from './streams.ts'

export interface Consumer {
  /** Partitions held by this replica. */
  held(): number[]
  stop(): Promise<void>
}

const renewMs = 1_500

/**
 * Consumes another service's events, exactly once in effect and in order per partition. Partitions spread over the
 * replicas by leases; what one has done is fenced by the position that moves in the same transaction.
 */
export function startConsumer(options: ConsumerOptions): Consumer {
  const member = randomUUID()
  const readers = new Map<number, PartitionReader>()
  const stopped = new AbortController()
  const stream = streamOf(options.source)

  const balance = async () => {
    await options.nats.whenConnected(stopped.signal)
    if (stopped.signal.aborted) return
    const held = await leasePartitions(options.sql, { stream, member, leaseMs, partitionCount })
    for (const [partition, reader] of readers) {
      if (held.includes(partition)) continue
      readers.delete(partition)
      await reader.stop()
    }
    const missing = held.filter((partition) => !readers.has(partition))
    if (missing.length === 0) return
    const jsm = await options.nats.connection.jetstreamManager()
    await ensureStream(jsm, options.source, options.streamReplicas)
    await ensureDeadLetterStream(jsm, options.streamReplicas)
    for (const partition of missing) {
      readers.set(partition, new PartitionReader(options, partition, member))
    }
  }

  const loop = async () => {
    while (!stopped.signal.aborted) {
      await balance().catch((error: unknown) =>
        options.log.warn({ err: error, stream }, 'partitions could not be leased, trying again'),
      )
      await pause(renewMs, stopped.signal)
    }
  }
  const running = loop()

  return {
    held: () => [...readers.keys()].sort((a, b) => a - b),
    async stop() {
      stopped.abort()
      await running
      await Promise.all([...readers.values()].map((reader) => reader.stop()))
      await releasePartitions(options.sql, stream, member).catch((error: unknown) =>
        options.log.warn({ err: error }, 'partitions stay leased until their lease ends'),
      )
    },
  }
}
