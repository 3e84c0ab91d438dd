import { DiscardPolicy, ErrorCode, nanos, NatsError, RetentionPolicy, StorageType } from 'nats'
import type { JetStreamManager } from 'nats'
import { streamOf, subjectsOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'

// Older events are in the log in PostgreSQL.
const keptMs = 6 * 3_600_000
const defaultBytes = 512 * 1024 * 1024

/**
 * Creates a source's stream if it does not exist. A full stream drops its oldest messages; nothing depends on them.
 *
 * @param replicas 3 on a cluster of three NATS servers
 * @param bytes maximum size; an existing stream is changed if this user may do that
 */
export async function ensureStream(
  manager: JetStreamManager,
  source: Source,
  replicas: number,
  bytes: number = defaultBytes,
): Promise<void> {
  const name = streamOf(source)
  const info = await manager.streams.info(name).catch((error: unknown) => {
    if (!isNotFound(error)) throw error
  })
  if (!info) {
    await manager.streams.add({
      name,
      subjects: [subjectsOf(source)],
      retention: RetentionPolicy.Limits,
      storage: StorageType.File,
      discard: DiscardPolicy.Old,
      max_bytes: bytes,
      max_age: nanos(keptMs),
      num_replicas: replicas,
    })
  } else if (info.config.max_bytes !== bytes) {
    await manager.streams.update(name, { max_bytes: bytes }).catch((error: unknown) => {
      // A service's own user may create its stream but not change it.
      if (!(error instanceof NatsError) || !refusals.has(error.code)) throw error
    })
  }
}

const refusals = new Set<string>([ErrorCode.PermissionsViolation, ErrorCode.NoResponders])

export function isNotFound(error: unknown): boolean {
  return error instanceof NatsError && error.api_error?.code === 404
}
