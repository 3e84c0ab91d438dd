import { randomUUID } from 'node:crypto'
import type { Database } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import { transaction } from '@licensing/database/transaction'
import type { Logger } from '@licensing/process/log'
import { maxIdleMs, Loop } from '@licensing/process/loop'
import type { LoopOptions } from '@licensing/process/loop'
import { reportUnreadable } from '../alerts/endpoint-alerts.ts'
import type { Clock } from '@licensing/process/clock'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'
import {
  claimDue,
  findNextDueAt,
  freeExpiredClaims,
  hasExpiredClaims,
  abandonExpired,
  releaseClaims,
} from './claim-queries.ts'
import { leaseMs } from './claimed-delivery.ts'
import type { ClaimedDelivery } from './claimed-delivery.ts'
import type { EndpointCache } from './endpoint-cache.ts'
import { expiredClaims } from './metrics.ts'
import type { Scheduler } from './scheduler.ts'

export interface ClaimerOptions {
  sql: Database
  clock: Clock
  log: Logger
  scheduler: Scheduler
  endpoints: EndpointCache
  /** Starts attempts of claimed deliveries. */
  startAttempts: () => void
  /** Payloads of events recorded before this time are past retention. */
  keptSince: () => Date
  /** Whether attempts could not be recorded, because the database was unavailable. */
  isBehind: () => boolean
  /** Called when an alert was queued. */
  alertQueued: () => void
}

const pollMs = 250
const tickMs = 250
const freeMs = { busy: 1_000, idle: 4_000 }
const reportMs = { busy: 1_000, idle: 4_000 }
// While the operator changes the encryption key, another replica may have a key that this process does not have.
const reportAfterMs = 5_000
// More at a time would delay other deliveries: when a pause with a long queue ended, their p99 was 1.85 times as long with 1,000, and
// is 1.42 times as long (measured).
const maxClaimed = 200
const maxFreed = 1_000
const maxReported = 200

/** Claims due deliveries as far as there is capacity for them, and releases deliveries that cannot be sent within their lease. */
export class Claimer {
  readonly #options: ClaimerOptions
  readonly #claimLoop: Loop
  readonly #tickLoop: Loop
  readonly #reportLoop: Loop
  readonly #loops: Loop[]
  /** Endpoints with more deliveries waiting than there was capacity for. */
  readonly #backlogged = new Set<string>()
  /** The last account whose endpoints were looked at. */
  #afterAccount = ''
  #turn: Promise<unknown> = Promise.resolve()
  #isStopping = false

  constructor(options: ClaimerOptions) {
    this.#options = options
    const loop = (part: string, everyMs: number, work: LoopOptions['work']) =>
      new Loop({
        work,
        everyMs,
        failed: (error) =>
          options.log.warn({ err: error, part }, 'deliveries could not be processed, trying again'),
        isOutage: isDatabaseOutage,
      })
    this.#claimLoop = loop('due', pollMs, () => this.#claimWhenDue())
    this.#tickLoop = loop('claimed', tickMs, () => this.#tick())
    this.#reportLoop = loop('unreadable', reportMs.busy, () => this.#reportUnreadable())
    this.#loops = [
      this.#claimLoop,
      this.#tickLoop,
      this.#reportLoop,
      loop('expired', freeMs.busy, () => this.#freeExpired()),
    ]
  }

  start(): void {
    for (const loop of this.#loops) loop.start()
  }

  /** Claims no more deliveries, and releases the queued ones. */
  async stop(): Promise<void> {
    this.#isStopping = true
    await Promise.all(this.#loops.map((loop) => loop.stop()))
    await this.#release(this.#options.scheduler.empty()).catch((error: unknown) =>
      this.#options.log.warn({ err: error }, 'deliveries stay claimed until their leases end'),
    )
  }

  /** Call this when a delivery is due that no process has claimed. */
  wake(): void {
    this.#claimLoop.wake()
  }

  wakeIn(ms: number): void {
    this.#claimLoop.wakeIn(ms)
  }

  /** Call this when deliveries were queued. */
  onQueued(): void {
    this.#tickLoop.wakeIn(tickMs)
  }

  /** Releases deliveries that wait again, because their endpoint is paused. */
  release(claimed: ClaimedDelivery[]): void {
    if (claimed.length === 0) return
    const endpointIds = new Set(claimed.map(({ delivery }) => delivery.endpoint_id))
    // Deliveries that were claimed meanwhile follow these.
    const following = () => [...endpointIds].flatMap((id) => this.#options.scheduler.drop(id))
    this.#inTurn(() => this.#release([...claimed, ...following()])).then(
      () => this.#claimLoop.wake(),
      (error: unknown) =>
        this.#options.log.warn({ err: error }, 'deliveries stay claimed until their leases end'),
    )
  }

  /** Records that more deliveries wait for an endpoint than there is capacity for. */
  markBacklogged(endpointId: string): void {
    this.#backlogged.add(endpointId)
  }

  /** Looks for more deliveries of a backlogged endpoint when half of its queued deliveries are sent. */
  refill(endpointId: string): void {
    if (!this.#backlogged.has(endpointId) || !this.#options.scheduler.isHalfEmpty(endpointId)) return
    this.#backlogged.delete(endpointId)
    this.#claimLoop.wake()
  }

  /** @returns milliseconds until the next search */
  async #claimWhenDue(): Promise<number> {
    const next = await findNextDueAt(this.#options.sql)
    const waitMs = next ? next.getTime() - this.#options.clock.now().getTime() : maxIdleMs
    if (waitMs > 0) return Math.min(waitMs, maxIdleMs)
    await this.#claimAllDue()
    return pollMs
  }

  /**
   * Claims and releases take turns. A claim beside a release skips the rows that are being released, and would send those that
   * follow them first.
   */
  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = this.#turn.then(work)
    this.#turn = result.catch(() => {})
    return result
  }

  async #claimAllDue(): Promise<void> {
    // Endpoints without a claimed delivery. They are left out of the next search, so that the loop ends.
    const withoutClaims: string[] = []
    while (!this.#isStopping) if (!(await this.#inTurn(() => this.#claimDue(withoutClaims)))) return
  }

  /** @returns whether more may be due */
  async #claimDue(withoutClaims: string[]): Promise<boolean> {
    const { sql, clock, scheduler, endpoints: cache, startAttempts } = this.#options
    const full = scheduler.full()
    if (full === null) return false
    const unreadable = cache.unreadable()
    if (unreadable.length > 0) this.#reportLoop.wakeIn(reportMs.busy)
    full.endpoints.push(...unreadable, ...withoutClaims)
    const claimId = randomUUID()
    const leaseEndsAt = performance.now() + leaseMs
    const capacity = (row: EndpointRow) => {
      const settings = cache.open(row)
      return settings && !settings.paused ? scheduler.capacity(settings) : 0
    }
    const { dueEndpoints, endpoints, claimed } = await claimDue(sql, {
      now: clock.now(),
      full,
      afterAccount: this.#afterAccount,
      capacity,
      limit: maxClaimed,
      claimId,
      leaseMs,
      keptSince: this.#options.keptSince(),
    })
    if (dueEndpoints.length === 0) return false
    this.#afterAccount = dueEndpoints.at(-1)!.account_id
    const claimedFrom = new Set(claimed.map((delivery) => delivery.endpoint_id))
    withoutClaims.push(...dueEndpoints.flatMap(({ id }) => (claimedFrom.has(id) ? [] : [id])))
    const settings = new Map(endpoints.map((row) => [row.id, cache.open(row)]))
    const paused: ClaimedDelivery[] = []
    for (const { body, ...delivery } of claimed) {
      const known = settings.get(delivery.endpoint_id)
      if (!known || body === null) continue
      const own = { delivery: { ...delivery, body }, claimId, leaseEndsAt }
      // The endpoint may have been paused meanwhile.
      if (known.paused) paused.push(own)
      else scheduler.add(known, own)
    }
    await this.#release(paused)
    for (const row of endpoints) if (capacity(row) === 0) this.#backlogged.add(row.id)
    this.onQueued()
    startAttempts()
    const expired = claimed.filter(({ body }) => body === null).map(({ id }) => id)
    if (expired.length > 0) await abandonExpired(sql, claimId, expired)
    return true
  }

  async #tick(): Promise<'idle' | void> {
    const { scheduler, startAttempts } = this.#options
    await this.#inTurn(() => this.#release(scheduler.tick(performance.now())))
    startAttempts()
    if (scheduler.queued === 0 && scheduler.busy.all === 0) return 'idle'
  }

  async #freeExpired(): Promise<number | void> {
    // After an outage of the database, the attempts that were in flight are recorded first. Otherwise their deliveries,
    // whose leases have ended, would be sent again.
    if (this.#options.isBehind()) return
    const { sql } = this.#options
    if (!(await hasExpiredClaims(sql))) return freeMs.idle
    expiredClaims.inc(await transaction(sql, (tx) => freeExpiredClaims(tx, maxFreed)))
    this.#claimLoop.wake()
  }

  /** Alerts the vendors of endpoints whose secrets cannot be decrypted, unless another replica sends their deliveries. */
  async #reportUnreadable(): Promise<number | 'idle' | void> {
    const { sql, clock, endpoints, alertQueued } = this.#options
    const unreadable = endpoints.unreadableFor(reportAfterMs)
    if (unreadable.length === 0) return 'idle'
    const dueBefore = new Date(clock.now().getTime() - reportAfterMs)
    const reported = await transaction(sql, (tx) =>
      reportUnreadable(tx, unreadable, { dueBefore, limit: maxReported }),
    )
    if (reported === 0) return reportMs.idle
    alertQueued()
    if (reported === maxReported) return 0
  }

  async #release(claimed: ClaimedDelivery[]): Promise<void> {
    if (claimed.length === 0) return
    const claims = claimed.map(({ delivery, claimId }) => ({ id: delivery.id, claimId }))
    await transaction(this.#options.sql, (tx) => releaseClaims(tx, claims))
  }
}
