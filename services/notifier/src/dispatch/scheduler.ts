import { leaseMarginMs, attemptKindOf } from './claimed-delivery.ts'
import type { AttemptKind, Work } from './claimed-delivery.ts'
import { EndpointState } from './endpoint-queue.ts'
import type { EndpointSettings, Ending, Standing } from './endpoint-queue.ts'

const attemptKinds: readonly AttemptKind[] = ['first', 'later']
const standings: readonly Standing[] = ['proven', 'unknown', 'slow']

/**
 * Shares of all slots that each kind may take. What is kept from one is what no flood of it can take from the others:
 * a fifth is always left for retries, three fifths for first attempts, half for endpoints known to be well.
 */
const attemptShares: Record<AttemptKind, number> = { first: 0.8, later: 0.4 }
const standingShares: Record<Standing, number> = { proven: 0.9, unknown: 0.5, slow: 0.2 }

// Slow endpoints time out together. Their next attempts begin one after the other, all slots in a second: with 50 at once,
// each with a TLS handshake, what others sent waited for 70 ms every five seconds.
const slowSpreadMs = 1_000

const mostQueued = 20_000
// However many endpoints an account has: the others' are fetched all the same.
const mostQueuedOfAccount = mostQueued / 4
const forgottenAfterMs = 10 * 60_000

export interface Pick {
  work: Work
  settings: EndpointSettings
}

/**
 * Decides which delivery is sent next: accounts in turn, of each its endpoints in turn, each endpoint up to its cap, within
 * the shares of first and later attempts and standings. Pure: no clock, no I/O; times are milliseconds that only grow.
 */
export class Scheduler {
  readonly #slots: number
  readonly #endpoints = new Map<string, EndpointState>()
  /** Endpoints with work that they may start, in turn. */
  readonly #rings: Record<AttemptKind, Record<Standing, Turns>> = {
    first: rings(),
    later: rings(),
  }
  readonly #busy: Record<AttemptKind | Standing | 'all', number> = {
    first: 0,
    later: 0,
    proven: 0,
    unknown: 0,
    slow: 0,
    all: 0,
  }
  #stale: Work[] = []
  #queued = 0
  readonly #queuedOfAccounts = new Map<string, number>()
  #queuedSlow = 0
  #slowFrom = 0
  #turn = 0

  constructor(slots: number) {
    this.#slots = slots
  }

  /** For metrics. */
  get busy(): Readonly<Record<AttemptKind | Standing | 'all', number>> {
    return this.#busy
  }

  get queued(): number {
    return this.#queued
  }

  /** How many more deliveries of an endpoint are wanted; `usual` where it is not known yet. */
  capacity({ id, accountId }: EndpointSettings, usual = 16): number {
    if ((this.#queuedOfAccounts.get(accountId) ?? 0) >= this.#mostOfAccount) return 0
    const endpoint = this.#endpoints.get(id)
    if (!endpoint) return usual
    if (endpoint.standing === 'slow' && this.#queuedSlow >= this.#share(standingShares.slow)) return 0
    return endpoint.capacity
  }

  /** Accounts and endpoints of which no more deliveries are wanted now; null if the queue has no place left at all. */
  full(): { accounts: string[]; endpoints: string[] } | null {
    const mostOfAccount = this.#mostOfAccount
    if (mostOfAccount === 0) return null
    const accounts = [...this.#queuedOfAccounts].flatMap(([id, queued]) =>
      queued >= mostOfAccount ? [id] : [],
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

  add(settings: EndpointSettings, work: Work): void {
    const endpoint = this.#endpointOf(settings)
    endpoint.push(work)
    this.#count(endpoint, 1)
    this.#enter(endpoint, attemptKindOf(work))
  }

  /** Settings as they are now: what is queued goes out with them. */
  change(settings: EndpointSettings): void {
    const endpoint = this.#endpoints.get(settings.id)
    if (endpoint && endpoint.settings.generation < settings.generation) endpoint.settings = settings
  }

  /** Takes back all that is queued for an endpoint. */
  drop(endpointId: string): Work[] {
    const endpoint = this.#endpoints.get(endpointId)
    return endpoint ? this.#takeBack(endpoint, () => true) : []
  }

  next(now: number): Pick | undefined {
    if (this.#busy.all >= this.#slots) return undefined
    this.#turn += 1
    // Healthy endpoints and those not known yet take turns; slow ones come last.
    const order = this.#turn % 2 === 0 ? standings : (['unknown', 'proven', 'slow'] as const)
    for (const kind of attemptKinds) {
      if (this.#busy[kind] >= this.#share(attemptShares[kind])) continue
      for (const standing of order) {
        const pick = this.#nextOf(kind, standing, now)
        if (pick) return pick
      }
    }
    return undefined
  }

  /** When the next attempt at a slow endpoint may begin, where one waits for nothing else. */
  slowFrom(now: number): number | undefined {
    const isWaiting = attemptKinds.some((kind) => !this.#rings[kind].slow.isEmpty)
    return isWaiting && now < this.#slowFrom ? this.#slowFrom : undefined
  }

  ended(work: Work, ending: Ending, now: number): void {
    const endpoint = this.#endpoints.get(work.delivery.endpoint_id)
    if (!endpoint?.inFlight.has(work)) return
    this.#busy.all -= 1
    this.#busy[attemptKindOf(work)] -= 1
    this.#busy[endpoint.standing] -= 1
    endpoint.end(work, ending, now)
    this.#settle(endpoint, now)
    for (const kind of attemptKinds) this.#enter(endpoint, kind)
  }

  /** Finds endpoints that have become slow. @returns work that is to be given back: its lease ends, or there is no use in holding it */
  tick(now: number): Work[] {
    const back = this.#stale
    this.#stale = []
    for (const endpoint of this.#endpoints.values()) {
      this.#settle(endpoint, now)
      let kept = 0
      const isOfUse = (work: Work) =>
        work.leaseEndsAt - now >= leaseMarginMs &&
        (endpoint.standing !== 'slow' || ++kept <= endpoint.mostQueued)
      back.push(...this.#takeBack(endpoint, (work) => !isOfUse(work)))
      const isIdle = endpoint.queued === 0 && endpoint.inFlight.size === 0
      if (isIdle && now - endpoint.usedAt > forgottenAfterMs) this.#endpoints.delete(endpoint.id)
    }
    return back
  }

  /** Takes back all that is queued. */
  empty(): Work[] {
    const back = [...this.#stale, ...[...this.#endpoints.keys()].flatMap((id) => this.drop(id))]
    this.#stale = []
    return back
  }

  #nextOf(kind: AttemptKind, standing: Standing, now: number): Pick | undefined {
    if (this.#busy[standing] >= this.#share(standingShares[standing])) return undefined
    if (standing === 'slow' && now < this.#slowFrom) return undefined
    const ring = this.#rings[kind][standing]
    for (let endpoint = ring.take(); endpoint; endpoint = ring.take()) {
      this.#settle(endpoint, now)
      if (endpoint.standing !== standing) {
        this.#enter(endpoint, kind)
        continue
      }
      const work = endpoint.isAtCap ? undefined : this.#shift(endpoint, kind, now)
      if (!work) continue
      endpoint.start(work, now)
      if (standing === 'slow') this.#slowFrom = now + slowSpreadMs / this.#share(standingShares.slow)
      this.#busy.all += 1
      this.#busy[kind] += 1
      this.#busy[standing] += 1
      this.#enter(endpoint, kind)
      return { work, settings: endpoint.settings }
    }
    return undefined
  }

  /** The first that can still be sent within its lease. */
  #shift(endpoint: EndpointState, kind: AttemptKind, now: number): Work | undefined {
    for (let work = endpoint.queues[kind].shift(); work; work = endpoint.queues[kind].shift()) {
      this.#count(endpoint, -1)
      if (work.leaseEndsAt - now >= leaseMarginMs) return work
      this.#stale.push(work)
    }
    return undefined
  }

  #endpointOf(settings: EndpointSettings): EndpointState {
    let endpoint = this.#endpoints.get(settings.id)
    if (!endpoint) {
      endpoint = new EndpointState(settings)
      this.#endpoints.set(settings.id, endpoint)
    } else if (endpoint.settings.generation < settings.generation) {
      endpoint.settings = settings
    }
    return endpoint
  }

  /** Puts an endpoint at the end of its ring where it has something to start. */
  #enter(endpoint: EndpointState, kind: AttemptKind): void {
    if (endpoint.queues[kind].length === 0 || endpoint.isAtCap) return
    this.#rings[kind][endpoint.standing].add(endpoint)
  }

  #settle(endpoint: EndpointState, now: number): void {
    const standing = endpoint.judge(now)
    if (standing === endpoint.standing) return
    this.#busy[endpoint.standing] -= endpoint.inFlight.size
    this.#busy[standing] += endpoint.inFlight.size
    if (endpoint.standing === 'slow') this.#queuedSlow -= endpoint.queued
    if (standing === 'slow') this.#queuedSlow += endpoint.queued
    for (const kind of attemptKinds) this.#rings[kind][endpoint.standing].delete(endpoint)
    endpoint.standing = standing
    for (const kind of attemptKinds) this.#enter(endpoint, kind)
  }

  #takeBack(endpoint: EndpointState, isWanted: (work: Work) => boolean): Work[] {
    const back: Work[] = []
    for (const kind of attemptKinds) {
      const queue = endpoint.queues[kind]
      if (queue.length === 0) continue
      const taken: Work[] = []
      endpoint.queues[kind] = queue.filter((work) => !isWanted(work) || taken.push(work) === 0)
      this.#count(endpoint, -taken.length)
      back.push(...taken)
    }
    return back
  }

  #count(endpoint: EndpointState, change: number): void {
    const { accountId } = endpoint.settings
    this.#queued += change
    const ofAccount = (this.#queuedOfAccounts.get(accountId) ?? 0) + change
    if (ofAccount > 0) this.#queuedOfAccounts.set(accountId, ofAccount)
    else this.#queuedOfAccounts.delete(accountId)
    if (endpoint.standing === 'slow') this.#queuedSlow += change
  }

  /** An account never has more than what is left for all others: a few accounts cannot fill the queue. */
  get #mostOfAccount(): number {
    return Math.max(0, Math.min(mostQueuedOfAccount, mostQueued - this.#queued))
  }

  #share(share: number): number {
    return Math.max(1, Math.floor(this.#slots * share))
  }
}

function rings(): Record<Standing, Turns> {
  return { proven: new Turns(), unknown: new Turns(), slow: new Turns() }
}

/** Endpoints that wait for their turn: accounts in turn, and of each account its endpoints in turn. */
export class Turns {
  readonly #accounts = new Map<string, Set<EndpointState>>()

  get isEmpty(): boolean {
    return this.#accounts.size === 0
  }

  /** At the end of its account's; does nothing where it waits already. */
  add(endpoint: EndpointState): void {
    const { accountId } = endpoint.settings
    const waiting = this.#accounts.get(accountId)
    if (waiting) waiting.add(endpoint)
    else this.#accounts.set(accountId, new Set([endpoint]))
  }

  delete(endpoint: EndpointState): void {
    const { accountId } = endpoint.settings
    const waiting = this.#accounts.get(accountId)
    if (waiting?.delete(endpoint) && waiting.size === 0) this.#accounts.delete(accountId)
  }

  /** The next, which waits no longer. */
  take(): EndpointState | undefined {
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
