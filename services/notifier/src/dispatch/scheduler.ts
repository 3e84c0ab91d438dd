import { leaseMarginMs, attemptKindOf } from './claimed-delivery.ts'
import type { AttemptKind, ClaimedDelivery } from './claimed-delivery.ts'
import { EndpointQueue } from './endpoint-queue.ts'
import type { EndpointSettings, AttemptOutcome, Responsiveness } from './endpoint-queue.ts'

const attemptKinds: readonly AttemptKind[] = ['first', 'later']
const responsivenessLevels: readonly Responsiveness[] = ['proven', 'unknown', 'slow']

/**
 * The share of all slots that each kind of attempt may use at most. The rest is left for the other kinds, however many
 * attempts of one kind wait: a fifth for retries, three fifths for first attempts, half for endpoints that answer quickly.
 */
const attemptShares: Record<AttemptKind, number> = { first: 0.8, later: 0.4 }
const responsivenessShares: Record<Responsiveness, number> = { proven: 0.9, unknown: 0.5, slow: 0.2 }

// Attempts at slow endpoints time out at the same moment. Their next attempts are spread over a second: when 50 started at
// once, each with a TLS handshake, all other attempts waited for 70 ms every five seconds (measured).
const slowSpreadMs = 1_000

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
  readonly #busy: Record<AttemptKind | Responsiveness | 'all', number> = {
    first: 0,
    later: 0,
    proven: 0,
    unknown: 0,
    slow: 0,
    all: 0,
  }
  /** Deliveries whose lease ends too soon to send them. */
  #stale: ClaimedDelivery[] = []
  #queued = 0
  readonly #queuedOfAccounts = new Map<string, number>()
  #queuedSlow = 0
  #slowFrom = 0
  #calls = 0

  constructor(slots: number) {
    this.#slots = slots
  }

  /** The numbers of attempts in flight, for metrics. */
  get busy(): Readonly<Record<AttemptKind | Responsiveness | 'all', number>> {
    return this.#busy
  }

  get queued(): number {
    return this.#queued
  }

  /** How many more deliveries of an endpoint may be queued. */
  capacity({ id, accountId }: EndpointSettings): number {
    if ((this.#queuedOfAccounts.get(accountId) ?? 0) >= this.#maxPerAccount) return 0
    const endpoint = this.#endpoints.get(id)
    if (!endpoint) return initialCapacity
    if (endpoint.responsiveness === 'slow' && this.#queuedSlow >= this.#share(responsivenessShares.slow))
      return 0
    return endpoint.capacity
  }

  /** Accounts and endpoints whose share of the queue is used up; null if the whole queue is full. */
  full(): { accounts: string[]; endpoints: string[] } | null {
    const maxPerAccount = this.#maxPerAccount
    if (maxPerAccount === 0) return null
    const accounts = [...this.#queuedOfAccounts].flatMap(([id, queued]) =>
      queued >= maxPerAccount ? [id] : [],
    )
    const skipped = new Set(accounts)
    const endpoints = [...this.#endpoints.values()].flatMap(({ id, settings }) =>
      !skipped.has(settings.accountId) && this.capacity(settings) === 0 ? [id] : [],
    )
    return { accounts, endpoints }
  }

  isHalfEmpty(endpointId: string): boolean {
    const endpoint = this.#endpoints.get(endpointId)
    return !endpoint || endpoint.queued <= endpoint.capacity
  }

  add(settings: EndpointSettings, claimed: ClaimedDelivery): void {
    const endpoint = this.#endpointOf(settings)
    endpoint.push(claimed)
    this.#count(endpoint, 1)
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
    if (this.#busy.all >= this.#slots) return undefined
    this.#calls += 1
    // Proven and unknown endpoints take turns. Slow endpoints come last.
    const order = this.#calls % 2 === 0 ? responsivenessLevels : (['unknown', 'proven', 'slow'] as const)
    for (const kind of attemptKinds) {
      if (this.#busy[kind] >= this.#share(attemptShares[kind])) continue
      for (const responsiveness of order) {
        const next = this.#nextOf(kind, responsiveness, now)
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
    this.#busy.all -= 1
    this.#busy[attemptKindOf(claimed)] -= 1
    this.#busy[endpoint.responsiveness] -= 1
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
      if (isIdle && now - endpoint.usedAt > idleEndpointLifeMs) this.#endpoints.delete(endpoint.id)
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
    if (this.#busy[responsiveness] >= this.#share(responsivenessShares[responsiveness])) return undefined
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
      if (responsiveness === 'slow')
        this.#slowFrom = now + slowSpreadMs / this.#share(responsivenessShares.slow)
      this.#busy.all += 1
      this.#busy[kind] += 1
      this.#busy[responsiveness] += 1
      this.#makeReady(endpoint, kind)
      return { claimed, settings: endpoint.settings }
    }
    return undefined
  }

  /** The first delivery that can still be sent within its lease. */
  #shift(endpoint: EndpointQueue, kind: AttemptKind, now: number): ClaimedDelivery | undefined {
    for (let claimed = endpoint.queues[kind].shift(); claimed; claimed = endpoint.queues[kind].shift()) {
      this.#count(endpoint, -1)
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
    if (endpoint.queues[kind].length === 0 || endpoint.isAtCap) return
    this.#ready[kind][endpoint.responsiveness].add(endpoint)
  }

  /** Counts and queues the endpoint under its present responsiveness. */
  #reclassify(endpoint: EndpointQueue, now: number): void {
    const responsiveness = endpoint.responsivenessAt(now)
    if (responsiveness === endpoint.responsiveness) return
    this.#busy[endpoint.responsiveness] -= endpoint.inFlight.size
    this.#busy[responsiveness] += endpoint.inFlight.size
    if (endpoint.responsiveness === 'slow') this.#queuedSlow -= endpoint.queued
    if (responsiveness === 'slow') this.#queuedSlow += endpoint.queued
    for (const kind of attemptKinds) this.#ready[kind][endpoint.responsiveness].delete(endpoint)
    endpoint.responsiveness = responsiveness
    for (const kind of attemptKinds) this.#makeReady(endpoint, kind)
  }

  #removeQueued(endpoint: EndpointQueue, isWanted: (claimed: ClaimedDelivery) => boolean): ClaimedDelivery[] {
    const removed: ClaimedDelivery[] = []
    for (const kind of attemptKinds) {
      const queue = endpoint.queues[kind]
      if (queue.length === 0) continue
      const taken: ClaimedDelivery[] = []
      endpoint.queues[kind] = queue.filter((claimed) => !isWanted(claimed) || taken.push(claimed) === 0)
      this.#count(endpoint, -taken.length)
      removed.push(...taken)
    }
    return removed
  }

  #count(endpoint: EndpointQueue, change: number): void {
    const { accountId } = endpoint.settings
    this.#queued += change
    const ofAccount = (this.#queuedOfAccounts.get(accountId) ?? 0) + change
    if (ofAccount > 0) this.#queuedOfAccounts.set(accountId, ofAccount)
    else this.#queuedOfAccounts.delete(accountId)
    if (endpoint.responsiveness === 'slow') this.#queuedSlow += change
  }

  /** How much of the queue an account may use: never more than is left for all others, so that a few cannot fill it. */
  get #maxPerAccount(): number {
    return Math.max(0, Math.min(maxQueuedPerAccount, maxQueued - this.#queued))
  }

  #share(share: number): number {
    return Math.max(1, Math.floor(this.#slots * share))
  }
}

function newRoundRobins(): Record<Responsiveness, RoundRobin> {
  return { proven: new RoundRobin(), unknown: new RoundRobin(), slow: new RoundRobin() }
}

/** Endpoints that wait for their turn. Accounts take turns, and so do the endpoints of each account. */
class RoundRobin {
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
