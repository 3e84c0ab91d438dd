import type { WebhookSignature } from '@licensing/proto/closed-sets'
import type { AttemptKind, ClaimedDelivery } from './claimed-delivery.ts'

/** The properties of an endpoint that an attempt needs. */
export interface EndpointSettings {
  id: string
  accountId: string
  url: string
  paused: boolean
  signature: WebhookSignature
  secret: string
  /** Attempts are signed with this secret too, until a time. */
  former: { secret: string; until: Date } | null
  /** Names and values in turn. */
  headers: readonly string[]
  generation: bigint
}

/**
 * How an endpoint has answered so far: `proven` acknowledges quickly, `slow` times out or takes long, and `unknown` has not
 * acknowledged anything yet.
 */
export type Responsiveness = 'proven' | 'unknown' | 'slow'

export type AttemptOutcome = 'delivered' | 'failed' | 'timeout'

const firstCap = 2
const maxInFlight = 32
const slowMs = 1_000
const newestWeight = 0.2
// The queue of an endpoint has at most as many deliveries as the endpoint can answer in this time, so that no lease ends.
const queuedMs = 2_000
const [minPerSlot, maxPerSlot] = [8, 64]
const queuedWhenLimited = 2

/** The claimed deliveries of one endpoint, and how many of them may be in flight. Pure: times are parameters. */
export class EndpointQueue {
  settings: EndpointSettings
  responsiveness: Responsiveness = 'unknown'
  cap = firstCap
  /** Oldest first. */
  readonly queues: Record<AttemptKind, Set<ClaimedDelivery>> = { first: new Set(), later: new Set() }
  /** When each attempt in flight started, oldest first. */
  readonly inFlight = new Map<ClaimedDelivery, number>()
  usedAt = 0
  #isLimited = false
  #hasAnswered = false
  #averageMs = 0

  constructor(settings: EndpointSettings) {
    this.settings = settings
  }

  get id(): string {
    return this.settings.id
  }

  get queued(): number {
    return this.queues.first.size + this.queues.later.size
  }

  get isAtCap(): boolean {
    return this.inFlight.size >= this.cap
  }

  /** How many deliveries may be queued in this process. Other deliveries stay in the database, where any process can claim them. */
  get maxQueued(): number {
    if (this.#isLimited) return queuedWhenLimited
    if (this.responsiveness === 'slow') return this.cap
    const perSlot = this.#hasAnswered ? queuedMs / Math.max(1, this.#averageMs) : 0
    return this.cap * Math.min(maxPerSlot, Math.max(minPerSlot, Math.floor(perSlot)))
  }

  get capacity(): number {
    return Math.max(0, this.maxQueued - this.queued)
  }

  start(claimed: ClaimedDelivery, now: number): void {
    this.inFlight.set(claimed, now)
    this.usedAt = now
  }

  /** The cap starts at 2, grows with successes to 32, and falls to 1 on a timeout (docs/guides/webhooks.md, "Receive deliveries"). */
  end(claimed: ClaimedDelivery, outcome: AttemptOutcome, now: number): void {
    const startedAt = this.inFlight.get(claimed)
    if (startedAt === undefined) return
    this.inFlight.delete(claimed)
    this.usedAt = now
    if (outcome === 'timeout') {
      this.cap = 1
      this.#isLimited = true
    } else {
      this.#averageMs += newestWeight * (now - startedAt - this.#averageMs)
    }
    if (outcome === 'delivered') {
      this.cap = Math.min(this.cap + 1, maxInFlight)
      this.#isLimited = false
      this.#hasAnswered = true
    }
  }

  /** An endpoint is slow as soon as an attempt waits for long, not only when the attempt has ended. */
  responsivenessAt(now: number): Responsiveness {
    const [oldest = now] = this.inFlight.values()
    if (this.#isLimited || this.#averageMs > slowMs || now - oldest > slowMs) return 'slow'
    return this.#hasAnswered ? 'proven' : 'unknown'
  }
}

/** Endpoints that wait for their turn. Accounts take turns, and so do the endpoints of each account. */
export class RoundRobin {
  readonly #accounts = new Map<string, Set<EndpointQueue>>()

  get isEmpty(): boolean {
    return this.#accounts.size === 0
  }

  /** Adds an endpoint after the other endpoints of its account, unless it already waits. */
  add(endpoint: EndpointQueue): void {
    const { accountId } = endpoint.settings
    const waiting = this.#accounts.get(accountId)
    if (waiting) waiting.add(endpoint)
    else this.#accounts.set(accountId, new Set([endpoint]))
  }

  delete(endpoint: EndpointQueue): void {
    const { accountId } = endpoint.settings
    const waiting = this.#accounts.get(accountId)
    if (waiting?.delete(endpoint) && waiting.size === 0) this.#accounts.delete(accountId)
  }

  /** Removes and returns the next endpoint. */
  take(): EndpointQueue | undefined {
    for (const [accountId, waiting] of this.#accounts) {
      const [endpoint] = waiting
      waiting.delete(endpoint!)
      this.#accounts.delete(accountId)
      if (waiting.size > 0) this.#accounts.set(accountId, waiting)
      return endpoint
    }
    return undefined
  }
}
