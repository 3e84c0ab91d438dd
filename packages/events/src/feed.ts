import { AckPolicy, ConsumerEvents, DeliverPolicy, nanos } from 'nats'
import type { ConsumerMessages, JetStreamManager, JsMsg } from 'nats'
import { randomUUID } from 'node:crypto'
import { pause } from '@licensing/process/loop'
import type { Nats } from './connection.ts'
import { streamOf, subjectOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'

/** The connection ended, or JetStream no longer sends: what was on its way may be lost. */
export class Interrupted extends Error {}

/** JetStream has sent messages that never arrived. */
export class Hole extends Error {}

/** The messages of one partition from a position on: contiguous as far as it gives them out. */
export interface Feed {
  /** How many messages there were when it was opened. */
  readonly waiting: number
  /** How many messages follow those given out, as far as JetStream has reported. */
  readonly behind: number
  /**
   * The next messages, at most `most`, as soon as there is one; none when the signal has aborted.
   *
   * @throws Interrupted, Hole: open another feed from the position reached
   */
  next(most: number): Promise<JsMsg[]>
  close(): void
}

interface FeedOptions {
  nats: Nats
  source: Source
  partition: number
  /** Its consumers in JetStream begin with this name. */
  service: string
  /** Position in the stream after which it starts. */
  after: bigint
  /** Leaves the payloads out. */
  headersOnly?: boolean
  /** How many messages arrive before they are given out, at most; 1,000 when absent. */
  atOnce?: number
  signal: AbortSignal
}

const usuallyAtOnce = 1_000
// NATS before 2.9.16 may drop a request that ends just as a message comes, without an answer: no message arrives until
// heartbeats are missed, 5 s later. Seen once in 1,800 ends. Long requests are used up by messages instead.
const expiresMs = 3_600_000
const heartbeatMs = 2_500
const tailCheckMs = 2_500
// JetStream forgets a consumer that nobody reads.
const forgottenMs = 60_000

/**
 * Reads a partition over a connection that may lose messages on their way: JetStream counts as delivered what it wrote
 * into a dead connection, and goes on with newer messages on the next. Three things prove that none is missing:
 *
 * - JetStream numbers what it delivers to a consumer; each feed has a consumer of its own, and its numbers run from 1
 *   without a gap.
 * - A feed ends with the connection that it was opened on.
 * - What was delivered last is compared with what JetStream says it has delivered, for the end of a burst.
 */
export async function openFeed(options: FeedOptions): Promise<Feed> {
  const { nats, source, partition, service, after, atOnce = usuallyAtOnce, signal } = options
  const interruption = nats.interruption()
  if (interruption.aborted) throw new Interrupted('nats is unavailable')
  const stream = streamOf(source)
  const { connection } = nats
  const manager = await connection.jetstreamManager()
  const { name, num_pending: waiting } = await manager.consumers.add(stream, {
    name: `${service}-${partition}-${randomUUID().slice(0, 8)}`,
    filter_subject: subjectOf(source, partition, '>'),
    // The position in PostgreSQL says what is done.
    ack_policy: AckPolicy.None,
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: Number(after) + 1,
    inactive_threshold: nanos(forgottenMs),
    mem_storage: true,
    num_replicas: 1,
    ...(options.headersOnly && { headers_only: true }),
  })
  const consumer = await connection.jetstream().consumers.get(stream, name)
  const messages = await consumer.consume({
    max_messages: atOnce,
    expires: expiresMs,
    idle_heartbeat: heartbeatMs,
  })
  const flow = new Flow(messages, atOnce)
  const interrupted = () => flow.fail(new Interrupted('the connection to nats ended'))
  interruption.addEventListener('abort', interrupted, { once: true })
  signal.addEventListener('abort', flow.wake, { once: true })
  const over = new AbortController()
  void watchTail(manager, { stream, name }, flow, over.signal)
  if (interruption.aborted) interrupted()

  return {
    waiting,
    get behind() {
      return flow.behind
    },
    next: (most) => flow.next(most, signal),
    close() {
      over.abort()
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
  #buffer: JsMsg[] = []
  #problem: Error | undefined
  #received = 0
  #pending = 0
  #arrived = () => {}
  #drained = () => {}
  readonly #messages: ConsumerMessages
  readonly #most: number

  constructor(messages: ConsumerMessages, most: number) {
    this.#messages = messages
    this.#most = most
    this.#receive().catch((error: unknown) => this.fail(asError(error)))
    this.#follow().catch((error: unknown) => this.fail(asError(error)))
  }

  get received(): number {
    return this.#received
  }

  get behind(): number {
    return this.#buffer.length + this.#pending
  }

  readonly wake = (): void => this.#arrived()

  /** The first problem ends it; what arrived before it was given out, or is read again. */
  fail(problem: Error): void {
    if (this.#problem) return
    this.#problem = problem
    this.#arrived()
    this.#drained()
    void this.#messages.close()
  }

  async next(most: number, signal: AbortSignal): Promise<JsMsg[]> {
    while (this.#buffer.length === 0 && !this.#problem && !signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#arrived = resolve
      })
    }
    if (signal.aborted) return []
    if (this.#problem) throw this.#problem
    const batch = this.#buffer.splice(0, most)
    this.#drained()
    return batch
  }

  async #receive(): Promise<void> {
    for await (const message of this.#messages) {
      if (this.#problem) return
      const { deliverySequence, pending } = message.info
      if (deliverySequence !== this.#received + 1) {
        return this.fail(new Hole(`delivery ${this.#received + 1} is missing before ${deliverySequence}`))
      }
      this.#received += 1
      this.#pending = pending
      this.#buffer.push(message)
      this.#arrived()
      // JetStream is asked for more only by a loop that goes on.
      while (this.#buffer.length >= this.#most && !this.#problem) {
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

const endings = new Set<string>([
  ConsumerEvents.ConsumerDeleted,
  ConsumerEvents.ConsumerNotFound,
  ConsumerEvents.StreamNotFound,
  ConsumerEvents.HeartbeatsMissed,
  ConsumerEvents.NoResponders,
])

/** Finds messages lost at the end of a burst, which no later message betrays. */
async function watchTail(
  manager: JetStreamManager,
  { stream, name }: { stream: string; name: string },
  flow: Flow,
  signal: AbortSignal,
): Promise<void> {
  let suspected = -1
  for (;;) {
    const before = flow.received
    await pause(tailCheckMs, signal)
    if (signal.aborted) return
    if (flow.received !== before) continue
    try {
      const { delivered } = await manager.consumers.info(stream, name)
      const lost = delivered.consumer_seq - flow.received
      // Looked at twice: what is on its way arrives meanwhile.
      if (lost > 0 && suspected === before && flow.received === before) {
        return flow.fail(new Hole(`the last ${lost} deliveries are missing`))
      }
      suspected = lost > 0 ? before : -1
    } catch (error) {
      if (!signal.aborted) flow.fail(new Interrupted('jetstream does not answer', { cause: error }))
      return
    }
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
