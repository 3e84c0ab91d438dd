import { randomUUID } from 'node:crypto'
import type { Database } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import { transaction } from '@licensing/database/transaction'
import type { Logger } from '@licensing/process/log'
import { Loop } from '@licensing/process/loop'
import { reportUnreadable } from '../alerts/endpoint-alerts.ts'
import type { Clock } from '../clock.ts'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'
import {
  claimDue,
  findNextLook,
  freeExpiredClaims,
  giveUpUnsendable,
  releaseClaims,
} from './claim-queries.ts'
import type { EndpointBook } from './endpoint-cache.ts'
import { leaseMs } from './claimed-delivery.ts'
import { expiredClaims } from './metrics.ts'
import type { Scheduler } from './scheduler.ts'
import type { Work } from './claimed-delivery.ts'

export interface ClaimerOptions {
  sql: Database
  clock: Clock
  log: Logger
  scheduler: Scheduler
  book: EndpointBook
  /** Starts what was claimed. */
  pump: () => void
  /** Whether results wait for a database that was unavailable. */
  isBehind: () => boolean
  /** Called when an alert was queued. */
  alertQueued: () => void
}

const lookEveryMs = 250
// Nothing is due: what other replicas make due is found by looking.
const idleMs = 2_000
const tickEveryMs = 250
const tickIdleMs = 1_000
const freeEveryMs = 1_000
const reportEveryMs = 1_000
const freeIdleMs = 4_000
// While the encryption key is changed, another replica may have a key that this process does not have.
const reportAfterMs = 5_000
const mostClaimed = 1_000
const mostReported = 200

/** Fetches what is due from the database as far as there is capacity for it, and gives back what cannot be sent in time. */
export class Claimer {
  readonly #options: ClaimerOptions
  readonly #looking: Loop
  readonly #loops: Loop[]
  /** Endpoints with more deliveries waiting than there was capacity for. */
  readonly #backlogged = new Set<string>()
  /** The account that had the last turn. */
  #afterAccount = ''
  #isStopping = false

  constructor(options: ClaimerOptions) {
    this.#options = options
    const loop = (
      part: string,
      everyMs: number,
      work: () => Promise<number | 'idle' | void>,
      longestMs = everyMs,
    ) =>
      new Loop({
        work,
        everyMs,
        idleMs: longestMs,
        failed: (error) =>
          options.log.warn({ err: error, part }, 'deliveries could not be processed, trying again'),
        isOutage: isDatabaseOutage,
      })
    this.#looking = loop('due', lookEveryMs, () => this.#lookAndRest())
    this.#loops = [
      this.#looking,
      loop('held', tickEveryMs, () => this.#tick(), tickIdleMs),
      loop('expired', freeEveryMs, () => this.#free(), freeIdleMs),
      loop('unreadable', reportEveryMs, () => this.#report()),
    ]
  }

  start(): void {
    for (const loop of this.#loops) loop.start()
  }

  /** Claims no more, and gives back what is queued. */
  async stop(): Promise<void> {
    this.#isStopping = true
    await Promise.all(this.#loops.map((loop) => loop.stop()))
    await this.#release(this.#options.scheduler.empty()).catch((error: unknown) =>
      this.#options.log.warn({ err: error }, 'deliveries stay leased until their leases end'),
    )
  }

  /** Something is due that nobody holds. */
  wake(): void {
    this.#looking.wake()
  }

  wakeIn(ms: number): void {
    this.#looking.wakeIn(ms)
  }

  /** More deliveries wait for an endpoint than there is capacity for. */
  backlogged(endpointId: string): void {
    this.#backlogged.add(endpointId)
  }

  /** Looks for more before what is here of a backlogged endpoint is used up. */
  refill(endpointId: string): void {
    if (!this.#backlogged.has(endpointId) || !this.#options.scheduler.isHalfEmpty(endpointId)) return
    this.#backlogged.delete(endpointId)
    this.#looking.wake()
  }

  /** @returns milliseconds until the next look */
  async #lookAndRest(): Promise<number> {
    const next = await findNextLook(this.#options.sql)
    const waitMs = next ? next.getTime() - this.#options.clock.now().getTime() : idleMs
    if (waitMs > 0) return Math.min(waitMs, idleMs)
    await this.#look()
    return lookEveryMs
  }

  async #look(): Promise<void> {
    const { sql, clock, scheduler, book, pump } = this.#options
    // Each is looked at once, so that the look ends although it can claim nothing of them.
    const fruitless: string[] = []
    while (!this.#isStopping) {
      const full = scheduler.full()
      if (full === null) return
      full.endpoints.push(...book.unreadable(), ...fruitless)
      const claimId = randomUUID()
      const leaseEndsAt = performance.now() + leaseMs
      const capacity = (row: EndpointRow) => {
        const settings = book.open(row)
        return settings ? scheduler.capacity(settings) : 0
      }
      const { looked, endpoints, claimed } = await claimDue(sql, {
        now: clock.now(),
        full,
        afterAccount: this.#afterAccount,
        capacity,
        most: mostClaimed,
        claimId,
        leaseMs,
      })
      if (looked.length === 0) return
      this.#afterAccount = looked.at(-1)!.account_id
      const fruitful = new Set(claimed.map((delivery) => delivery.endpoint_id))
      fruitless.push(...looked.flatMap(({ id }) => (fruitful.has(id) ? [] : [id])))
      const settings = new Map(endpoints.map((row) => [row.id, book.open(row)]))
      for (const { body, ...delivery } of claimed) {
        const known = settings.get(delivery.endpoint_id)
        if (known && body !== null) {
          scheduler.add(known, { delivery: { ...delivery, body }, claimId, leaseEndsAt })
        }
      }
      for (const row of endpoints) if (capacity(row) === 0) this.#backlogged.add(row.id)
      pump()
      const unsendable = claimed.filter(({ body }) => body === null).map(({ id }) => id)
      if (unsendable.length > 0) await giveUpUnsendable(sql, claimId, unsendable)
    }
  }

  async #tick(): Promise<'idle' | void> {
    const { scheduler, pump } = this.#options
    await this.#release(scheduler.tick(performance.now()))
    pump()
    if (scheduler.queued === 0 && scheduler.busy.all === 0) return 'idle'
  }

  async #free(): Promise<'idle' | void> {
    // After an outage of the database the results of what was in flight come first: it is not sent again.
    if (this.#options.isBehind()) return
    const freed = await transaction(this.#options.sql, (tx) => freeExpiredClaims(tx, mostClaimed))
    expiredClaims.inc(freed)
    if (freed === 0) return 'idle'
    this.#looking.wake()
  }

  /** Alerts the vendors of endpoints whose secrets cannot be decrypted, unless another replica sends their deliveries. */
  async #report(): Promise<number | void> {
    const { sql, clock, book, alertQueued } = this.#options
    const unreported = book.takeUnreported(mostReported, reportAfterMs)
    if (unreported.length === 0) return
    const dueBefore = new Date(clock.now().getTime() - reportAfterMs)
    // If this fails, the endpoints are found again when their secrets are read again.
    const reported = await transaction(sql, (tx) => reportUnreadable(tx, unreported, dueBefore))
    if (reported > 0) alertQueued()
    return 0
  }

  async #release(works: Work[]): Promise<void> {
    if (works.length === 0) return
    const held = works.map(({ delivery, claimId }) => ({ id: delivery.id, claimId }))
    await transaction(this.#options.sql, (tx) => releaseClaims(tx, held))
  }
}
