import type { Sql } from '@licensing/database/connect'
import type { JetStreamManager } from 'nats'
import { listPositions } from './consumer-queries.ts'
import { partitionCount } from './partitions.ts'
import { streamOf, subjectOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'
import { isNotFound } from './streams.ts'

/**
 * Where each partition of a stream ends now. Only a stream that has messages is asked for one: NATS 2.9 crashes if the
 * stream is just being created, which another service does when all start for the first time.
 */
export async function streamEnds(jsm: JetStreamManager, source: Source): Promise<Map<number, bigint>> {
  const stream = streamOf(source)
  const info = await jsm.streams.info(stream).catch(noneIfNotFound)
  const hasMessages = info !== undefined && info.state.last_seq > 0
  const endOf = async (partition: number) => {
    const query = { last_by_subj: subjectOf(source, partition, '>') }
    const last = hasMessages ? await jsm.streams.getMessage(stream, query).catch(noneIfNotFound) : undefined
    return [partition, BigInt(last?.seq ?? 0)] as const
  }
  return new Map(
    await Promise.all(Array.from({ length: partitionCount }, (_, partition) => endOf(partition))),
  )
}

function noneIfNotFound(error: unknown): undefined {
  if (!isNotFound(error)) throw error
}

/** Whether this service, with all its replicas, has consumed everything up to these ends. */
export async function hasReached(sql: Sql, source: Source, ends: Map<number, bigint>): Promise<boolean> {
  const positions = await listPositions(sql, streamOf(source))
  return [...ends].every(([partition, end]) => (positions.get(partition) ?? 0n) >= end)
}
