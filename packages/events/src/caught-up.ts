import type { Sql } from '@licensing/database/connect'
import type { JetStreamManager } from 'nats'
import { listPositions } from './consumer-queries.ts'
import { partitionCount } from './partitions.ts'
import { streamOf, subjectOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'
import { isNotFound } from './streams.ts'

/** Where each partition of a stream ends now. */
export async function streamEnds(jsm: JetStreamManager, source: Source): Promise<Map<number, bigint>> {
  const ends = await Promise.all(
    Array.from({ length: partitionCount }, async (_, partition) => {
      try {
        const last = await jsm.streams.getMessage(streamOf(source), {
          last_by_subj: subjectOf(source, partition, '>'),
        })
        return [partition, BigInt(last.seq)] as const
      } catch (error) {
        if (isNotFound(error)) return [partition, 0n] as const
        throw error
      }
    }),
  )
  return new Map(ends)
}

/** Whether this service, with all its replicas, has consumed everything up to these ends. */
export async function hasReached(sql: Sql, source: Source, ends: Map<number, bigint>): Promise<boolean> {
  const positions = await listPositions(sql, streamOf(source))
  return [...ends].every(([partition, end]) => (positions.get(partition) ?? 0n) >= end)
}
