import { fromBinary } from '@bufbuild/protobuf'
import { EventBatchSchema } from '@licensing/proto/event-log'
import type { EventBatch } from '@licensing/proto/event-log'
import { streamOf, subjectOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'
import { AckPolicy, DeliverPolicy, nanos } from 'nats'
import type { JsMsg } from 'nats'
import { randomUUID } from 'node:crypto'
import type { Nats } from './connection.ts'

const maxBatchSize = 64
const answerMs = 2_000
// If a request expires just as a message arrives, NATS before 2.9.16 may drop the request without an answer. Requests as
// long as this end because they have received all their messages.
const expiresMs = 3_600_000
// JetStream deletes a consumer that nobody reads for this long.
const forgottenMs = 60_000

/** Batches that have arrived together. */
interface Arrival {
  batches: EventBatch[]
  /** How many messages JetStream has after them. */
  waiting: number
}

/** The messages of JetStream for one partition. Batches may be missing, repeated or out of order, and they may stop. */
export interface Feed {
  /** How many messages JetStream had when it was opened. */
  waiting: number
  arrivals: AsyncIterable<Arrival>
  /** Ends `arrivals`. JetStream forgets its consumer by itself. */
  close(): void
}

/**
 * @param service part of the name of JetStream's consumer
 * @param since messages that JetStream stored before this time are left out
 */
export async function openFeed(
  { connection }: Nats,
  { source, partition, service, since }: { source: Source; partition: number; service: string; since: Date },
): Promise<Feed> {
  const stream = streamOf(source)
  const manager = await connection.jetstreamManager({ timeout: answerMs })
  const { name, num_pending: waiting } = await manager.consumers.add(stream, {
    name: `${service}-${partition}-${randomUUID().slice(0, 8)}`,
    filter_subject: subjectOf(source, partition),
    // The position in PostgreSQL records which messages are processed.
    ack_policy: AckPolicy.None,
    deliver_policy: DeliverPolicy.StartTime,
    opt_start_time: since.toISOString(),
    inactive_threshold: nanos(forgottenMs),
    mem_storage: true,
    num_replicas: 1,
  })
  const consumer = await connection.jetstream({ timeout: answerMs }).consumers.get(stream, name)
  const messages = await consumer.consume({ max_messages: maxBatchSize, expires: expiresMs })
  return { waiting, arrivals: arrivalsOf(messages), close: () => void messages.close() }
}

/** Groups the messages that are already available, so that they are consumed in one transaction. */
async function* arrivalsOf(messages: AsyncIterable<JsMsg>): AsyncGenerator<Arrival, void> {
  const iterator = messages[Symbol.asyncIterator]()
  const request = () => {
    const message = iterator.next()
    // Avoids an unhandled rejection after the reader has stopped.
    message.catch(() => {})
    return message
  }
  let next = request()
  for (;;) {
    const first = await next
    if (first.done) return
    const group = [first.value]
    next = request()
    while (group.length < maxBatchSize) {
      const another = await Promise.race([next, nextImmediate()])
      if (!another || another.done) break
      group.push(another.value)
      next = request()
    }
    yield { batches: group.flatMap(({ data }) => decoded(data)), waiting: group.at(-1)!.info.pending }
  }
}

const nextImmediate = () => new Promise<undefined>((resolve) => setImmediate(() => resolve(undefined)))

/** The decoded batches; none if the bytes cannot be decoded. A damaged batch is read from the log instead. */
function decoded(bytes: Uint8Array): EventBatch[] {
  try {
    return [fromBinary(EventBatchSchema, bytes)]
  } catch {
    return []
  }
}
