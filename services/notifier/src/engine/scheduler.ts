import type { EndpointSettings, Ending, Standing } from './endpoint-state.ts'
import { EndpointState } from './endpoint-state.ts'
import { leaseMarginMs } from './lease-times.ts'
import type { Lane, Work } from './work.ts'
import { laneOf } from './work.ts'

const lanes: readonly Lane[] = ['first', 'later']
const standings: readonly Standing[] = ['proven', 'unknown', 'slow']

/**
 * Shares of all slots that each kind may take. What is kept from one is what no flood of it can take from the others:
 * a fifth is always left for retries, three fifths for first attempts, half for endpoints known to be well.
 */
const laneShares: Record<Lane, number> = { first: 0.8, later: 0.4 }
const standingShares: Record<Standing, number> = { proven: 0.9, unknown: 0.5, slow: 0.2 }

const mostQueued = 20_000
const forgottenAfterMs = 10 * 60_000

export interface Pick {
  work: Work
  settings: EndpointSettings
}

/**
 * Decides which delivery is sent next: endpoints in turn, each up to its cap, within the shares of lanes and
 * standings. Pure: no clock, no I/O; times are milliseconds that only grow.
 */
export class Scheduler {
  readonly #slots: number
  readonly #endpoints = new Map<string, EndpointState>()
  /** Endpoints with work that they may start, in turn. */
  readonly #rings: Record<Lane, Record<Standing, Set<EndpointState>>> = { first: rings(), later: rings() }
  readonly #busy: Record<Lane | Standing | 'all', number> = {
    first: 0,
    later: 0,
    proven: 0,
    unknown: 0,
    slow: 0,
    all: 0,
  }
  #stale: Work[] = []
  #queued = 0
  #queuedSlow = 0
  #turn = 0

  constructor(slots: number) {
    this.#slots = slots
  }

  /** For metrics. */
  get busy(): Readonly<Record<Lane | Standing | 'all', number>> {
    return this.#busy
  }

  get queued(): number {
    return this.#queued
  }

  /** How many more deliveries of an endpoint are wanted; `usual` where it is not known yet. */
  room(endpointId: string, usual = 16): number {
    if (this.#queued >= mostQueued) return 0
    const endpoint = this.#endpoints.get(endpointId)
    if (!endpoint) return usual
    if (endpoint.standing === 'slow' && this.#queuedSlow >= this.#share(standingShares.slow)) return 0
    return endpoint.room
  }

  /** Endpoints of which no more deliveries are wanted now. */
  full(): string[] {
    return [...this.#endpoints.keys()].filter((id) => this.room(id) === 0)
  }

  isHalfEmpty(endpointId: string): boolean {
    const endpoint = this.#endpoints.get(endpointId)
    return !endpoint || endpoint.queued <= endpoint.room
  }

  add(settings: EndpointSettings, work: Work): void {
    const endpoint = this.#endpointOf(settings)
    endpoint.push(work)
    this.#count(endpoint, 1)
    this.#enter(endpoint, laneOf(work))
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
    for (const lane of lanes) {
      if (this.#busy[lane] >= this.#share(laneShares[lane])) continue
      for (const standing of order) {
        const pick = this.#nextOf(lane, standing, now)
        if (pick) return pick
      }
    }
    return undefined
  }

  ended(work: Work, ending: Ending, now: number): void {
    const endpoint = this.#endpoints.get(work.delivery.endpointId)
    if (!endpoint?.inFlight.has(work)) return
    this.#busy.all -= 1
    this.#busy[laneOf(work)] -= 1
    this.#busy[endpoint.standing] -= 1
    endpoint.end(work, ending, now)
    this.#settle(endpoint, now)
    for (const lane of lanes) this.#enter(endpoint, lane)
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

  #nextOf(lane: Lane, standing: Standing, now: number): Pick | undefined {
    if (this.#busy[standing] >= this.#share(standingShares[standing])) return undefined
    const ring = this.#rings[lane][standing]
    for (const endpoint of ring) {
      ring.delete(endpoint)
      this.#settle(endpoint, now)
      if (endpoint.standing !== standing) {
        this.#enter(endpoint, lane)
        continue
      }
      const work = endpoint.isAtCap ? undefined : this.#shift(endpoint, lane, now)
      if (!work) continue
      endpoint.start(work, now)
      this.#busy.all += 1
      this.#busy[lane] += 1
      this.#busy[standing] += 1
      this.#enter(endpoint, lane)
      return { work, settings: endpoint.settings }
    }
    return undefined
  }

  /** The first that can still be sent within its lease. */
  #shift(endpoint: EndpointState, lane: Lane, now: number): Work | undefined {
    for (let work = endpoint.queues[lane].shift(); work; work = endpoint.queues[lane].shift()) {
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
  #enter(endpoint: EndpointState, lane: Lane): void {
    if (endpoint.queues[lane].length === 0 || endpoint.isAtCap) return
    this.#rings[lane][endpoint.standing].add(endpoint)
  }

  #settle(endpoint: EndpointState, now: number): void {
    const standing = endpoint.judge(now)
    if (standing === endpoint.standing) return
    this.#busy[endpoint.standing] -= endpoint.inFlight.size
    this.#busy[standing] += endpoint.inFlight.size
    if (endpoint.standing === 'slow') this.#queuedSlow -= endpoint.queued
    if (standing === 'slow') this.#queuedSlow += endpoint.queued
    for (const lane of lanes) this.#rings[lane][endpoint.standing].delete(endpoint)
    endpoint.standing = standing
    for (const lane of lanes) this.#enter(endpoint, lane)
  }

  #takeBack(endpoint: EndpointState, isWanted: (work: Work) => boolean): Work[] {
    const back: Work[] = []
    for (const lane of lanes) {
      const queue = endpoint.queues[lane]
      if (queue.length === 0) continue
      const taken: Work[] = []
      endpoint.queues[lane] = queue.filter((work) => !isWanted(work) || taken.push(work) === 0)
      this.#count(endpoint, -taken.length)
      back.push(...taken)
    }
    return back
  }

  #count(endpoint: EndpointState, change: number): void {
    this.#queued += change
    if (endpoint.standing === 'slow') this.#queuedSlow += change
  }

  #share(share: number): number {
    return Math.max(1, Math.floor(this.#slots * share))
  }
}

function rings(): Record<Standing, Set<EndpointState>> {
  return { proven: new Set(), unknown: new Set(), slow: new Set() }
}
