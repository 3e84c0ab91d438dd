import { DiscardPolicy, nanos, NatsError, RetentionPolicy, StorageType } from 'nats'
import type { JetStreamManager, StreamInfo } from 'nats'

/** The services that send events; each has a stream of its own. */
export type Source = 'catalog' | 'licensing' | 'billing'

export const deadLetterStream = 'DEAD_LETTERS'

const dayMs = 86_400_000
// Longer than any consumer may be stopped: what it has not seen by then is gone from the stream.
const keptDays = 30
/** Ids of consumed events are kept longer than any copy of an event. */
export const consumedKeptDays = keptDays + 5
// The relay sends again what was not acknowledged; within this time JetStream recognises it by its id.
const duplicateWindowMs = 5 * 60_000

export function streamOf(source: Source): string {
  return `${source.toUpperCase()}_EVENTS`
}

/** The subject of an event: `events.<source>.<partition>.<name>`. */
export function subjectOf(source: Source, partition: number, name: string): string {
  return `events.${source}.${partition}.${name}`
}

/** Creates a stream where it is missing. `replicas` is 3 on a cluster of three NATS servers. */
export async function ensureStream(
  jsm: JetStreamManager,
  source: Source,
  replicas: number,
): Promise<StreamInfo> {
  return ensure(jsm, streamOf(source), [`events.${source}.>`], replicas)
}

/** Where messages end that no consumer can take in. */
export async function ensureDeadLetterStream(jsm: JetStreamManager, replicas: number): Promise<StreamInfo> {
  return ensure(jsm, deadLetterStream, ['dead-letters.>'], replicas)
}

async function ensure(
  jsm: JetStreamManager,
  name: string,
  subjects: string[],
  replicas: number,
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
    max_age: nanos(keptDays * dayMs),
    duplicate_window: nanos(duplicateWindowMs),
    num_replicas: replicas,
  })
}

export function isNotFound(error: unknown): boolean {
  return error instanceof NatsError && error.api_error?.code === 404
}
