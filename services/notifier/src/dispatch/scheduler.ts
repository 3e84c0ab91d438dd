import { leaseMarginMs, attemptKindOf } from './claimed-delivery.ts'
import type { AttemptKind, ClaimedDelivery } from './claimed-delivery.ts'
import { EndpointQueue, RoundRobin } from './endpoint-queue.ts'
import type { EndpointSettings, AttemptOutcome, Responsiveness } from './endpoint-queue.ts'

const attemptKinds: readonly AttemptKind[] = ['first', 'later']
// Endpoints that have not answered yet are before slow ones. Both together leave slots to the proven ones.
const levels: readonly Responsiveness[] = ['unknown', 'slow', 'proven']

/**
 * The share of all slots that first attempts, later attempts and endpoints that are not proven may use at most, however many
 * of them wait: a fifth is left for retries, three fifths for first attempts, half for endpoints that answer quickly.
 */
const shares = { first: 0.8, later: 0.4, unproven: 0.5 }

// Attempts at slow endpoints time out at the same moment. Their next attempts are spread over this time: when 50 started at
// once, each with a TLS handshake, all other attempts waited for 70 ms every five seconds (measured).
const slowSpreadMs = 2_500

const maxQueued = 20_000
// The limit for one account, so that deliveries of other accounts are still claimed.
const maxQueuedPerAccount = maxQueued / 4
// For an endpoint to which nothing was sent yet.
const initialCapacity = 16
const idleEndpointLifeMs = 10 * 60_000

export interface NextAttempt {
  claimed: ClaimedDelivery
  settings: EndpointSettings
}

/**
 * Decides which delivery is sent next. Accounts take turns, and so do the endpoints of each account. An endpoint has at
 * most `cap` attempts in flight. Pure: no clock, no I/O. Times are milliseconds that only grow.
 */
export class Scheduler {
  readonly #slots: number
  readonly #endpoints = new Map<string, EndpointQueue>()
  /** Endpoints that may start a queued delivery. */
  readonly #ready: Record<AttemptKind, Record<Responsiveness, RoundRobin>> = {
    first: newRoundRobins(),
    later: newRoundRobins(),
  }
  /** Attempts in flight. Each is in the set of its kind, and in the set of its endpoint's responsiveness. */
  readonly #inFlight: Record<AttemptKind | Responsiveness, Set<ClaimedDelivery>> = {
    first: new Set(),
    later: new Set(),
    proven: new Set(),
    unknown: new Set(),
    slow: new Set(),
  }
  /** Deliveries whose lease ends too soon to send them. */
  #stale: ClaimedDelivery[] = []
  readonly #queued = new Set<ClaimedDelivery>()
  readonly #queuedOfAccounts = new Map<string, Set<ClaimedDelivery>>()
  readonly #slowEndpoints = new Set<EndpointQueue>()
  #slowFrom = 0

  constructor(slots: number) {
    this.#slots = slots
  }

  /** The numbers of attempts in flight. */
  get busy(): Record<AttemptKind | Responsiveness | 'all', number> {
    const { first, later, proven, unknown, slow } = this.#inFlight
    return {
      all: first.size + later.size,
      first: first.size,
      later: later.size,
      proven: proven.size,
      unknown: unknown.size,
      slow: slow.size,
    }
  }

  get queued(): number {
    return this.#queued.size
  }

  /** How many more deliveries of an endpoint may be queued. */
  capacity({ id, accountId }: EndpointSettings): number {
    if ((this.#queuedOfAccounts.get(accountId)?.size ?? 0) >= this.#maxPerAccount) return 0
    const endpoint = this.#endpoints.get(id)
    if (!endpoint) return initialCapacity
    return endpoint.responsiveness === 'slow' && this.#isSlowFull() ? 0 : endpoint.capacity
  }

  /** Accounts and endpoints whose share of the queue is used up; null if the whole queue is full. */
  full(): { accounts: string[]; endpoints: string[] } | null {
    const maxPerAccount = this.#maxPerAccount
    if (maxPerAccount === 0) return null
    const accounts = [...this.#queuedOfAccounts].flatMap(([id, { size }]) =>
      size >= maxPerAccount ? [id] : [],
    )
    const skipped = new Set(accounts)
    const isSlowFull = this.#isSlowFull()
    const isFull = (endpoint: EndpointQueue) =>
      endpoint.capacity === 0 || (endpoint.responsiveness === 'slow' && isSlowFull)
    const endpoints = [...this.#endpoints.values()].flatMap((endpoint) =>
      !skipped.has(endpoint.settings.accountId) && isFull(endpoint) ? [endpoint.id] : [],
    )
    return { accounts, endpoints }
  }

  isHalfEmpty(endpointId: string): boolean {
    const endpoint = this.#endpoints.get(endpointId)
    return !endpoint || endpoint.queued <= endpoint.capacity
  }

  add(settings: EndpointSettings, claimed: ClaimedDelivery): void {
    const endpoint = this.#endpointOf(settings)
    const { accountId } = endpoint.settings
    endpoint.queues[attemptKindOf(claimed)].add(claimed)
    this.#queued.add(claimed)
    const ofAccount = this.#queuedOfAccounts.get(accountId)
    if (ofAccount) ofAccount.add(claimed)
    else this.#queuedOfAccounts.set(accountId, new Set([claimed]))
    this.#makeReady(endpoint, attemptKindOf(claimed))
  }

  /** Queued deliveries are sent with the new settings. */
  change(settings: EndpointSettings): void {
    const endpoint = this.#endpoints.get(settings.id)
    if (endpoint && endpoint.settings.generation < settings.generation) endpoint.settings = settings
  }

  /** Removes all queued deliveries of an endpoint. */
  drop(endpointId: string): ClaimedDelivery[] {
    const endpoint = this.#endpoints.get(endpointId)
    return endpoint ? this.#removeQueued(endpoint, () => true) : []
  }

  next(now: number): NextAttempt | undefined {
    const { first, later } = this.#inFlight
    if (first.size + later.size >= this.#slots) return undefined
    for (const kind of attemptKinds) {
      if (this.#inFlight[kind].size >= this.#share(kind)) continue
      for (const level of levels) {
        const next = this.#nextOf(kind, level, now)
        if (next) return next
      }
    }
    return undefined
  }

  /** When the next attempt at a slow endpoint may start; undefined if no attempt waits only for that time. */
  slowFrom(now: number): number | undefined {
    const isWaiting = attemptKinds.some((kind) => !this.#ready[kind].slow.isEmpty)
    return isWaiting && now < this.#slowFrom ? this.#slowFrom : undefined
  }

  ended(claimed: ClaimedDelivery, outcome: AttemptOutcome, now: number): void {
    const endpoint = this.#endpoints.get(claimed.delivery.endpoint_id)
    if (!endpoint?.inFlight.has(claimed)) return
    this.#inFlight[attemptKindOf(claimed)].delete(claimed)
    this.#inFlight[endpoint.responsiveness].delete(claimed)
    endpoint.end(claimed, outcome, now)
    this.#reclassify(endpoint, now)
    for (const kind of attemptKinds) this.#makeReady(endpoint, kind)
  }

  /**
   * Finds endpoints that have become slow.
   *
   * @returns deliveries to be released: their lease ends, or their endpoint is too slow for them
   */
  tick(now: number): ClaimedDelivery[] {
    const removed = this.#stale
    this.#stale = []
    for (const endpoint of this.#endpoints.values()) {
      this.#reclassify(endpoint, now)
      let queued = 0
      const canBeSent = (claimed: ClaimedDelivery) =>
        claimed.leaseEndsAt - now >= leaseMarginMs &&
        (endpoint.responsiveness !== 'slow' || ++queued <= endpoint.maxQueued)
      removed.push(...this.#removeQueued(endpoint, (claimed) => !canBeSent(claimed)))
      const isIdle = endpoint.queued === 0 && endpoint.inFlight.size === 0
      if (isIdle && now - endpoint.usedAt > idleEndpointLifeMs) {
        this.#endpoints.delete(endpoint.id)
        this.#slowEndpoints.delete(endpoint)
      }
    }
    return removed
  }

  /** Removes and returns all queued deliveries. */
  empty(): ClaimedDelivery[] {
    const removed = [...this.#stale, ...[...this.#endpoints.keys()].flatMap((id) => this.drop(id))]
    this.#stale = []
    return removed
  }

  #nextOf(kind: AttemptKind, responsiveness: Responsiveness, now: number): NextAttempt | undefined {
    const unproven = this.#inFlight.unknown.size + this.#inFlight.slow.size
    if (responsiveness !== 'proven' && unproven >= this.#share('unproven')) return undefined
    if (responsiveness === 'slow' && now < this.#slowFrom) return undefined
    const ready = this.#ready[kind][responsiveness]
    for (let endpoint = ready.take(); endpoint; endpoint = ready.take()) {
      this.#reclassify(endpoint, now)
      if (endpoint.responsiveness !== responsiveness) {
        this.#makeReady(endpoint, kind)
        continue
      }
      const claimed = endpoint.isAtCap ? undefined : this.#shift(endpoint, kind, now)
      if (!claimed) continue
      endpoint.start(claimed, now)
      if (responsiveness === 'slow') this.#slowFrom = now + slowSpreadMs / this.#share('unproven')
      this.#inFlight[kind].add(claimed)
      this.#inFlight[responsiveness].add(claimed)
      this.#makeReady(endpoint, kind)
      return { claimed, settings: endpoint.settings }
    }
    return undefined
  }

  /** The first delivery that can still be sent within its lease. */
  #shift(endpoint: EndpointQueue, kind: AttemptKind, now: number): ClaimedDelivery | undefined {
    for (const claimed of endpoint.queues[kind]) {
      this.#dequeue(endpoint, claimed)
      if (claimed.leaseEndsAt - now >= leaseMarginMs) return claimed
      this.#stale.push(claimed)
    }
    return undefined
  }

  #endpointOf(settings: EndpointSettings): EndpointQueue {
    this.change(settings)
    const known = this.#endpoints.get(settings.id)
    if (known) return known
    const added = new EndpointQueue(settings)
    this.#endpoints.set(settings.id, added)
    return added
  }

  /** Makes the endpoint wait for its turn, if it may start a delivery. */
  #makeReady(endpoint: EndpointQueue, kind: AttemptKind): void {
    if (endpoint.queues[kind].size === 0 || endpoint.isAtCap) return
    this.#ready[kind][endpoint.responsiveness].add(endpoint)
  }

  /** Moves the endpoint to the sets of its present responsiveness. */
  #reclassify(endpoint: EndpointQueue, now: number): void {
    const before = endpoint.responsiveness
    const responsiveness = endpoint.responsivenessAt(now)
    if (responsiveness === before) return
    for (const claimed of endpoint.inFlight.keys()) {
      this.#inFlight[before].delete(claimed)
      this.#inFlight[responsiveness].add(claimed)
    }
    if (responsiveness === 'slow') this.#slowEndpoints.add(endpoint)
    else this.#slowEndpoints.delete(endpoint)
    for (const kind of attemptKinds) this.#ready[kind][before].delete(endpoint)
    endpoint.responsiveness = responsiveness
    for (const kind of attemptKinds) this.#makeReady(endpoint, kind)
  }

  #removeQueued(endpoint: EndpointQueue, isWanted: (claimed: ClaimedDelivery) => boolean): ClaimedDelivery[] {
    const removed = attemptKinds.flatMap((kind) => [...endpoint.queues[kind]].filter(isWanted))
    for (const claimed of removed) this.#dequeue(endpoint, claimed)
    return removed
  }

  #dequeue(endpoint: EndpointQueue, claimed: ClaimedDelivery): void {
    const { accountId } = endpoint.settings
    endpoint.queues[attemptKindOf(claimed)].delete(claimed)
    this.#queued.delete(claimed)
    const ofAccount = this.#queuedOfAccounts.get(accountId)
    if (ofAccount?.delete(claimed) && ofAccount.size === 0) this.#queuedOfAccounts.delete(accountId)
  }

  /** Whether as many deliveries of slow endpoints are queued as may be in flight. */
  #isSlowFull(): boolean {
    const queued = [...this.#slowEndpoints].reduce((sum, endpoint) => sum + endpoint.queued, 0)
    return queued >= this.#share('unproven')
  }

  /** How much of the queue an account may use: never more than is left for all others, so that a few cannot fill it. */
  get #maxPerAccount(): number {
    return Math.max(0, Math.min(maxQueuedPerAccount, maxQueued - this.#queued.size))
  }

  #share(of: keyof typeof shares): number {
    return Math.max(1, Math.floor(this.#slots * shares[of]))
  }
}

function newRoundRobins(): Record<Responsiveness, RoundRobin> {
  return { proven: new RoundRobin(), unknown: new RoundRobin(), slow: new RoundRobin() }
}
