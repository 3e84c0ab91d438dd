import { DiscardPolicy, ErrorCode, nanos, NatsError, RetentionPolicy, StorageType } from 'nats'
import type { JetStreamManager, StreamInfo } from 'nats'
import { deadLetterStream, streamOf, subjectsOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'

const dayMs = 86_400_000
// Longer than any consumer may be stopped: what it has not seen by then is gone from the stream.
const keptDays = 30
/** Ids of consumed events are kept longer than any copy of an event. */
export const consumedKeptDays = keptDays + 5
// The relay sends again what was not acknowledged; within this time JetStream recognises it by its id.
const duplicateWindowMs = 5 * 60_000

/**
 * Creates a stream where it is missing. `replicas` is 3 on a cluster of three NATS servers.
 *
 * @param mostBytes what it may hold; left as it is when absent, and where this user may not change it
 */
export async function ensureStream(
  jsm: JetStreamManager,
  source: Source,
  replicas: number,
  mostBytes?: number,
): Promise<StreamInfo> {
  const info = await ensure(jsm, streamOf(source), [subjectsOf(source)], replicas, mostBytes)
  if (mostBytes === undefined || info.config.max_bytes === mostBytes) return info
  try {
    return await jsm.streams.update(info.config.name, { max_bytes: mostBytes })
  } catch (error) {
    // A service's own user may create its stream and not change it.
    if (error instanceof NatsError && refusals.has(error.code)) return info
    throw error
  }
}

const refusals = new Set<string>([ErrorCode.PermissionsViolation, ErrorCode.NoResponders])

/** Where messages end that no consumer can process. */
export async function ensureDeadLetterStream(jsm: JetStreamManager, replicas: number): Promise<StreamInfo> {
  return ensure(jsm, deadLetterStream, ['dead-letters.>'], replicas)
}

async function ensure(
  jsm: JetStreamManager,
  name: string,
  subjects: string[],
  replicas: number,
  mostBytes?: number,
): Promise<StreamInfo> {
  try {
    return await jsm.streams.info(name)
  } catch (error) {
    if (!isNotFound(error)) throw error
  }
  return jsm.streams.add({
    name,
    subjects,
    retention: RetentionPolicy.Limits,
    storage: StorageType.File,
    // A full stream refuses: events then wait in the outbox rather than push others out.
    discard: DiscardPolicy.New,
    ...(mostBytes !== undefined && { max_bytes: mostBytes }),
    max_age: nanos(keptDays * dayMs),
    duplicate_window: nanos(duplicateWindowMs),
    num_replicas: replicas,
  })
}

export async function hasStream(jsm: JetStreamManager, source: Source): Promise<boolean> {
  try {
    await jsm.streams.info(streamOf(source))
    return true
  } catch (error) {
    if (isNotFound(error)) return false
    throw error
  }
}

export function isNotFound(error: unknown): boolean {
  return error instanceof NatsError && error.api_error?.code === 404
}
