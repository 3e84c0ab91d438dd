import type { Sql } from '@licensing/database/connect'
import type { JetStreamManager } from 'nats'
import { listPositions } from './consumer-queries.ts'
import { partitionCount } from './partitions.ts'
import { streamOf, subjectOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'
import { isNotFound } from './streams.ts'

/**
 * Where each partition of a stream ends now. Only a stream that has messages is asked for one: NATS 2.9 crashes if it is
 * while the stream is being made, which at a first start another service does at this moment.
 */
export async function streamEnds(jsm: JetStreamManager, source: Source): Promise<Map<number, bigint>> {
  const stream = streamOf(source)
  const { state } = (await jsm.streams.info(stream).catch(noneIfNotFound)) ?? { state: { last_seq: 0 } }
  const ends = await Promise.all(
    Array.from({ length: partitionCount }, async (_, partition) => {
      if (state.last_seq === 0) return [partition, 0n] as const
      const last = await jsm.streams
        .getMessage(stream, { last_by_subj: subjectOf(source, partition, '>') })
        .catch(noneIfNotFound)
      return [partition, BigInt(last?.seq ?? 0)] as const
    }),
  )
  return new Map(ends)
}

function noneIfNotFound(error: unknown): undefined {
  if (!isNotFound(error)) throw error
}

/** Whether this service, with all its replicas, has consumed everything up to these ends. */
export async function hasReached(sql: Sql, source: Source, ends: Map<number, bigint>): Promise<boolean> {
  const positions = await listPositions(sql, streamOf(source))
  return [...ends].every(([partition, end]) => (positions.get(partition) ?? 0n) >= end)
}
