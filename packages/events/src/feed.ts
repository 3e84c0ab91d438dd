import { fromBinary } from '@bufbuild/protobuf'
import { EventBatchSchema } from '@licensing/proto/event-log'
import type { EventBatch } from '@licensing/proto/event-log'
import { streamOf, subjectOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'
import { AckPolicy, DeliverPolicy, nanos } from 'nats'
import type { ConsumerMessages } from 'nats'
import { randomUUID } from 'node:crypto'
import type { Nats } from './connection.ts'

const atOnce = 64
const answerMs = 2_000
// NATS before 2.9.16 may drop a request that ends just as a message comes, without an answer. Long requests are used up by
// messages instead.
const expiresMs = 3_600_000
// JetStream forgets a consumer that nobody reads.
const forgottenMs = 60_000

/**
 * The batches of one partition as JetStream sends them: some may be missing, repeated or out of order, and it may become
 * silent. Who reads it knows by the numbers.
 *
 * @param service JetStream's consumer is named after it
 * @param since what JetStream stored before this time is left out
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
    // The position in PostgreSQL says what is done.
    ack_policy: AckPolicy.None,
    deliver_policy: DeliverPolicy.StartTime,
    opt_start_time: since.toISOString(),
    inactive_threshold: nanos(forgottenMs),
    mem_storage: true,
    num_replicas: 1,
  })
  const consumer = await connection.jetstream({ timeout: answerMs }).consumers.get(stream, name)
  return new Feed(await consumer.consume({ max_messages: atOnce, expires: expiresMs }), waiting)
}

export class Feed {
  readonly #messages: ConsumerMessages
  /** How many messages were there when it was opened, less those read since. */
  #waiting: number
  #pending = 0
  #batches: EventBatch[] = []
  #isClosed = false
  #arrived = () => {}
  #taken = () => {}

  constructor(messages: ConsumerMessages, waiting: number) {
    this.#messages = messages
    this.#waiting = waiting
    void this.#receive()
  }

  /** How many events have arrived that were not given out, with the batches that JetStream has not sent yet. */
  get behind(): number {
    return this.#batches.reduce((sum, { events }) => sum + events.length, this.#pending)
  }

  /** Whether all that the stream had when the feed was opened has been given out. */
  get isDrained(): boolean {
    return this.#waiting <= 0 && this.#batches.length === 0
  }

  /** Ends the wait of `next`. */
  wake(): void {
    this.#arrived()
  }

  /** The next batches, as soon as there is one; none after `waitMs`, when woken, or if the signal aborts. */
  async next(mostEvents: number, waitMs: number, signal: AbortSignal): Promise<EventBatch[]> {
    if (this.#batches.length === 0 && !signal.aborted) {
      const { promise: woken, resolve } = Promise.withResolvers<void>()
      const wake = () => resolve()
      this.#arrived = wake
      const timer = setTimeout(wake, waitMs)
      signal.addEventListener('abort', wake, { once: true })
      await woken
      // What came in one read with the first message is taken with it.
      await new Promise((resolve) => setImmediate(resolve))
      clearTimeout(timer)
      signal.removeEventListener('abort', wake)
    }
    let events = 0
    const end = this.#batches.findIndex((batch, at) => (events += batch.events.length) > mostEvents && at > 0)
    const batches = this.#batches.splice(0, end < 0 ? this.#batches.length : end)
    this.#taken()
    return batches
  }

  /** JetStream forgets its consumer by itself. */
  close(): void {
    this.#isClosed = true
    this.#taken()
    void this.#messages.close()
  }

  async #receive(): Promise<void> {
    for await (const { data, info } of this.#messages) {
      this.#waiting -= 1
      this.#pending = info.pending
      const batch = decoded(data)
      if (batch) this.#batches.push(batch)
      this.#arrived()
      // JetStream is asked for more only by a loop that goes on.
      while (this.#batches.length >= atOnce && !this.#isClosed) {
        await new Promise<void>((resolve) => (this.#taken = resolve))
      }
    }
  }
}

/** Undefined if the bytes are no batch. The log has it, if it was one. */
function decoded(bytes: Uint8Array): EventBatch | undefined {
  try {
    return fromBinary(EventBatchSchema, bytes)
  } catch {
    return undefined
  }
}
