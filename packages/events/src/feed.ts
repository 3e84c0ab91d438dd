import { fromBinary } from '@bufbuild/protobuf'
import { EventBatchSchema } from '@licensing/proto/event-log'
import type { EventBatch } from '@licensing/proto/event-log'
import { streamOf, subjectOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'
import { AckPolicy, ConsumerEvents, DeliverPolicy, nanos } from 'nats'
import type { ConsumerMessages } from 'nats'
import { randomUUID } from 'node:crypto'
import type { Nats } from './connection.ts'

/** The connection ended, or JetStream no longer sends. */
export class Interrupted extends Error {}

/** The batches of one partition as JetStream sends them: some may be missing, repeated or out of order. */
export interface Feed {
  /** How many events have arrived that were not given out, with the batches that JetStream has not sent yet. */
  readonly behind: number
  /** Whether everything that the stream had when the feed was opened has been given out. */
  readonly isDrained: boolean
  /**
   * The next batches, as soon as there is one; none after `waitMs` or if the signal has aborted.
   *
   * @param mostEvents how many events they have together, if it is more than one batch
   * @throws Interrupted: open another feed
   */
  next(mostEvents: number, waitMs: number): Promise<EventBatch[]>
  close(): void
}

const atOnce = 64
const answerMs = 2_000
// NATS before 2.9.16 may drop a request that ends just as a message comes, without an answer. Long requests are used up by
// messages instead.
const expiresMs = 3_600_000
const heartbeatMs = 5_000
// JetStream forgets a consumer that nobody reads.
const forgottenMs = 60_000

const endings = new Set<string>([
  ConsumerEvents.ConsumerDeleted,
  ConsumerEvents.ConsumerNotFound,
  ConsumerEvents.StreamNotFound,
  ConsumerEvents.HeartbeatsMissed,
  ConsumerEvents.NoResponders,
])

export async function openFeed(options: {
  nats: Nats
  source: Source
  partition: number
  /** Its consumers in JetStream begin with this name. */
  service: string
  /** What JetStream stored before this time is left out. */
  since: Date
  signal: AbortSignal
}): Promise<Feed> {
  const { nats, source, partition, service, since, signal } = options
  const interruption = nats.interruption()
  if (interruption.aborted) throw new Interrupted('nats is unavailable')
  const stream = streamOf(source)
  const { connection } = nats
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
  const messages = await consumer.consume({
    max_messages: atOnce,
    expires: expiresMs,
    idle_heartbeat: heartbeatMs,
  })
  const flow = new Flow(messages)
  const interrupted = () => flow.fail(new Interrupted('the connection to nats ended'))
  interruption.addEventListener('abort', interrupted, { once: true })
  signal.addEventListener('abort', flow.wake, { once: true })
  if (interruption.aborted) interrupted()

  return {
    get behind() {
      return flow.behind
    },
    get isDrained() {
      return flow.given >= waiting
    },
    next: (mostEvents, waitMs) => flow.next(mostEvents, waitMs, signal),
    close() {
      interruption.removeEventListener('abort', interrupted)
      signal.removeEventListener('abort', flow.wake)
      flow.fail(new Interrupted('closed'))
      // A consumer that cannot be deleted now is forgotten by itself.
      if (!interruption.aborted) manager.consumers.delete(stream, name).catch(() => {})
    },
  }
}

/** What has arrived and was not given out yet. */
class Flow {
  given = 0
  readonly #messages: ConsumerMessages
  #buffer: EventBatch[] = []
  #problem: Error | undefined
  #pending = 0
  #unreadable = 0
  #arrived = () => {}
  #drained = () => {}

  constructor(messages: ConsumerMessages) {
    this.#messages = messages
    this.#receive().catch((error: unknown) => this.fail(asError(error)))
    this.#follow().catch((error: unknown) => this.fail(asError(error)))
  }

  get behind(): number {
    return this.#buffer.reduce((sum, { events }) => sum + events.length, this.#pending)
  }

  readonly wake = (): void => this.#arrived()

  fail(problem: Error): void {
    if (this.#problem) return
    this.#problem = problem
    this.#arrived()
    this.#drained()
    void this.#messages.close()
  }

  async next(mostEvents: number, waitMs: number, signal: AbortSignal): Promise<EventBatch[]> {
    if (this.#buffer.length === 0 && !this.#problem && !signal.aborted) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, waitMs)
        this.#arrived = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    if (signal.aborted) return []
    if (this.#problem) throw this.#problem
    let events = 0
    let count = 0
    for (const batch of this.#buffer) {
      events += batch.events.length
      if (count > 0 && events > mostEvents) break
      count += 1
    }
    this.given += count + this.#unreadable
    this.#unreadable = 0
    const batches = this.#buffer.splice(0, count)
    this.#drained()
    return batches
  }

  async #receive(): Promise<void> {
    for await (const message of this.#messages) {
      if (this.#problem) return
      this.#pending = message.info.pending
      const batch = decoded(message.data)
      // The log has the batch, if this was one.
      if (batch) this.#buffer.push(batch)
      else this.#unreadable += 1
      this.#arrived()
      // JetStream is asked for more only by a loop that goes on.
      while (this.#buffer.length >= atOnce && !this.#problem) {
        await new Promise<void>((resolve) => {
          this.#drained = resolve
        })
      }
    }
    this.fail(new Interrupted('the subscription ended'))
  }

  async #follow(): Promise<void> {
    for await (const { type } of await this.#messages.status()) {
      if (endings.has(type)) this.fail(new Interrupted(type))
    }
  }
}

function decoded(bytes: Uint8Array): EventBatch | undefined {
  try {
    return fromBinary(EventBatchSchema, bytes)
  } catch {
    return undefined
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
