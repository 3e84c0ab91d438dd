import type { AttemptKind, Work } from './claimed-delivery.ts'
import { attemptKindOf } from './claimed-delivery.ts'

/** What an attempt needs of its endpoint. */
export interface EndpointSettings {
  id: string
  accountId: string
  url: string
  secret: string
  generation: bigint
}

/**
 * What is known of how an endpoint answers: `proven` has acknowledged and is quick, `slow` times out or takes long,
 * of `unknown` nothing is known yet.
 */
export type Standing = 'proven' | 'unknown' | 'slow'

export type Ending = 'delivered' | 'failed' | 'timeout'

const firstCap = 2
const mostInFlight = 32
const slowMs = 1_000
const memory = 0.2
// So much work is queued here for an endpoint that answers as usual; no lease runs out in that time.
const queuedMs = 2_000
const [leastPerSlot, mostPerSlot] = [8, 64]
const queuedWhenPenalised = 2

/** One endpoint's part of the engine's memory: its queues, its cap, its standing. Pure: times are given. */
export class EndpointState {
  settings: EndpointSettings
  standing: Standing = 'unknown'
  cap = firstCap
  readonly queues: Record<AttemptKind, Work[]> = { first: [], later: [] }
  /** Start of each attempt in flight, in order of their beginning. */
  readonly inFlight = new Map<Work, number>()
  usedAt = 0
  #isPenalised = false
  #hasAnswered = false
  #usualMs = 0

  constructor(settings: EndpointSettings) {
    this.settings = settings
  }

  get id(): string {
    return this.settings.id
  }

  get queued(): number {
    return this.queues.first.length + this.queues.later.length
  }

  get isAtCap(): boolean {
    return this.inFlight.size >= this.cap
  }

  /** How many deliveries are of use here: others are better off where any process can take them. */
  get mostQueued(): number {
    if (this.#isPenalised) return queuedWhenPenalised
    if (this.standing === 'slow') return this.cap
    const perSlot = this.#hasAnswered ? queuedMs / Math.max(1, this.#usualMs) : 0
    return this.cap * Math.min(mostPerSlot, Math.max(leastPerSlot, Math.floor(perSlot)))
  }

  get capacity(): number {
    return Math.max(0, this.mostQueued - this.queued)
  }

  push(work: Work): void {
    this.queues[attemptKindOf(work)].push(work)
  }

  start(work: Work, now: number): void {
    this.inFlight.set(work, now)
    this.usedAt = now
  }

  /** The cap starts at 2, grows with successes to 32, and falls to 1 on a timeout (decisions, section 6). */
  end(work: Work, ending: Ending, now: number): void {
    const startedAt = this.inFlight.get(work)
    if (startedAt === undefined) return
    this.inFlight.delete(work)
    this.usedAt = now
    if (ending === 'timeout') {
      this.cap = 1
      this.#isPenalised = true
    } else {
      this.#usualMs += memory * (now - startedAt - this.#usualMs)
    }
    if (ending === 'delivered') {
      this.cap = Math.min(this.cap + 1, mostInFlight)
      this.#isPenalised = false
      this.#hasAnswered = true
    }
  }

  /** An attempt that has not been answered for long makes its endpoint slow at once, not only when it has ended. */
  judge(now: number): Standing {
    const [oldest = now] = this.inFlight.values()
    if (this.#isPenalised || this.#usualMs > slowMs || now - oldest > slowMs) return 'slow'
    return this.#hasAnswered ? 'proven' : 'unknown'
  }
}
