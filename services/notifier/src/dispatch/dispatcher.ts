import { randomUUID } from 'node:crypto'
import type { Database } from '@licensing/database/connect'
import type { Logger } from '@licensing/process/log'
import type { Clock } from '../clock.ts'
import type { Backoff } from '../deliveries/backoff.ts'
import { mostAttempts, waitAfter } from '../deliveries/backoff.ts'
import type { Claim } from '../deliveries/delivery-queries.ts'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'
import { happenedAt } from '../events/event.ts'
import type { AttemptResult, Sender } from '../http-client/sender.ts'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { attempt } from './attempt.ts'
import { Claimer } from './claimer.ts'
import { EndpointBook } from './endpoint-cache.ts'
import type { Ending } from './endpoint-queue.ts'
import { leaseMs, attemptKindOf } from './claimed-delivery.ts'
import {
  attemptSeconds,
  attemptsMade,
  duplicatesSent,
  firstAttemptDelay,
  queuedDeliveries,
  slotsBusy,
  unreadableSecrets,
} from './metrics.ts'
import type { Result } from './attempt-queries.ts'
import { ResultWriter } from './attempt-writer.ts'
import type { Pick } from './scheduler.ts'
import { Scheduler } from './scheduler.ts'
import type { Sendable, Work } from './claimed-delivery.ts'
import type { Outcomes } from './record-attempts.ts'
import { writeOutcomes } from './record-attempts.ts'

export interface EngineOptions {
  sql: Database
  /** For the results of attempts: see `resultSettings`. */
  resultSql: Database
  sender: Sender
  keys: EncryptionKeys
  clock: Clock
  backoff: Backoff
  slots: number
  log: Logger
  /** Called when an alert was queued. */
  alertQueued: () => void
  /** Tells the other replicas of endpoints that changed. */
  announce: (endpointIds: string[]) => void
}

// An attempt takes a third of a millisecond to begin, and an endpoint may begin 32 at once.
const mostStarted = 4

/** Deliveries leased to this process by the transaction that makes or finds them. */
export interface Lease {
  claim: Claim
  /** To be called after the commit. */
  send: () => void
}

/** Sends what is due. PostgreSQL has the truth; this has no more than what it leased, and may be killed at any time. */
export class Engine {
  readonly #options: EngineOptions
  readonly #scheduler: Scheduler
  readonly #book: EndpointBook
  readonly #writer: ResultWriter<Outcomes>
  readonly #claimer: Claimer
  #isStopping = false
  #inFlight = 0
  #startedInTurn = 0
  #slowTimer: NodeJS.Timeout | undefined
  #landed: () => void = () => {}

  constructor(options: EngineOptions) {
    this.#options = options
    this.#scheduler = new Scheduler(options.slots)
    this.#book = new EndpointBook(options.keys, options.log)
    this.#writer = new ResultWriter({
      write: (results) => writeOutcomes({ ...options, sql: options.resultSql }, results),
      written: (results, outcome) => this.#written(results, outcome),
      log: options.log,
    })
    this.#claimer = new Claimer({
      sql: options.sql,
      clock: options.clock,
      log: options.log,
      scheduler: this.#scheduler,
      book: this.#book,
      pump: () => this.#pump(),
      isBehind: () => this.#writer.isBehind,
      alertQueued: options.alertQueued,
    })
  }

  start(): void {
    this.#claimer.start()
  }

  /** Brings the gauges up to date. */
  measure(): void {
    for (const [of, busy] of Object.entries(this.#scheduler.busy)) slotsBusy.set({ of }, busy)
    queuedDeliveries.set(this.#scheduler.queued)
    unreadableSecrets.set(this.#book.unreadableCount)
  }

  /** Leases as many deliveries as there is capacity for; the others wait for any replica that has some. */
  lease(deliveries: Sendable[], endpoints: EndpointRow[]): Lease {
    const claimId = randomUUID()
    const leaseEndsAt = performance.now() + leaseMs
    const rows = new Map(endpoints.map((row) => [row.id, row]))
    const capacity = new Map<string, number>()
    const leased: Sendable[] = []
    for (const delivery of this.#isStopping ? [] : deliveries) {
      const { endpoint_id: endpointId } = delivery
      const settings = this.#book.open(rows.get(endpointId)!)
      if (!settings) continue
      const left = capacity.get(endpointId) ?? this.#scheduler.capacity(settings)
      capacity.set(endpointId, left - 1)
      if (left > 0) leased.push(delivery)
      else this.#claimer.backlogged(endpointId)
    }
    const deliveryIds = new Set(leased.map(({ id }) => id))
    const send = () => {
      for (const delivery of leased) {
        // As it is known now: the endpoint may have changed while the transaction ended.
        const settings = this.#book.open(rows.get(delivery.endpoint_id)!)
        if (settings) this.#scheduler.add(settings, { delivery, claimId, leaseEndsAt })
      }
      if (leased.length < deliveries.length) this.#claimer.wake()
      this.#pump()
    }
    return { claim: { id: claimId, leaseMs, deliveryIds }, send }
  }

  /** Something is due that was not leased. */
  wake(): void {
    this.#claimer.wake()
  }

  /** What is still to be sent goes out with the new secret, or not at all. Other replicas are notified. */
  endpointsChanged(rows: EndpointRow[]): void {
    this.takeOver(rows)
    this.#options.announce(rows.map(({ id }) => id))
  }

  /** Like `endpointsChanged`, where the news came from another replica. */
  takeOver(rows: EndpointRow[]): void {
    for (const row of rows) {
      if (row.status === 'disabled') this.#close(row.id)
      else {
        const settings = this.#book.open(row)
        if (settings) this.#scheduler.change(settings)
      }
    }
  }

  /** Lets what is in flight end, writes the results, and gives back what was not started. */
  async stop(): Promise<void> {
    this.#isStopping = true
    clearTimeout(this.#slowTimer)
    await this.#claimer.stop()
    if (this.#inFlight > 0) await new Promise<void>((resolve) => (this.#landed = resolve))
    await this.#writer.drain()
  }

  /** Starts what may be started, a few in each turn of the event loop: what others wait for comes between. */
  #pump(): void {
    while (!this.#isStopping && this.#startedInTurn < mostStarted) {
      const now = performance.now()
      const pick = this.#scheduler.next(now)
      if (!pick) return this.#pumpWhenSlowMay(now)
      this.#startedInTurn += 1
      if (this.#startedInTurn === 1) setImmediate(() => this.#nextTurn())
      this.#inFlight += 1
      void this.#send(pick).finally(() => {
        this.#inFlight -= 1
        if (this.#inFlight === 0) this.#landed()
        this.#claimer.refill(pick.settings.id)
        this.#pump()
      })
    }
  }

  #nextTurn(): void {
    this.#startedInTurn = 0
    this.#pump()
  }

  #pumpWhenSlowMay(now: number): void {
    const from = this.#scheduler.slowFrom(now)
    if (from === undefined || this.#slowTimer) return
    this.#slowTimer = setTimeout(() => {
      this.#slowTimer = undefined
      this.#pump()
    }, from - now)
  }

  async #send(pick: Pick): Promise<void> {
    const { clock, sender, log } = this.#options
    const { work } = pick
    const at = clock.now()
    try {
      const result = await attempt(sender, pick, at)
      this.#scheduler.ended(work, endingOf(result), performance.now())
      this.#observe(work, result, at)
      this.#writer.add(this.#resultOf(work, result, at))
    } catch (error) {
      // A fault of ours: the delivery stays leased until its lease ends, and is tried again.
      this.#scheduler.ended(work, 'failed', performance.now())
      log.error({ err: error, delivery_id: work.delivery.id }, 'attempt could not be made')
    }
  }

  #resultOf({ delivery, claimId }: Work, result: AttemptResult, at: Date): Result {
    const { backoff, clock } = this.#options
    const endedAt = clock.now()
    const delivered = result.outcome === 'delivered'
    const failures = delivery.scheduled_attempts + 1
    const waitMs =
      delivered || delivery.is_replay ? null : waitAfter(backoff, { failures, ...result }, Math.random())
    return {
      applicationId: delivery.application_id,
      deliveryId: delivery.id,
      endpointId: delivery.endpoint_id,
      claimId,
      isReplay: delivery.is_replay,
      at,
      endedAt,
      durationMs: result.durationMs,
      delivered,
      responseCode: result.responseCode,
      error: errorText(result),
      responseExcerpt: result.responseExcerpt,
      retryAt: waitMs === null ? null : new Date(endedAt.getTime() + waitMs),
      attempt: delivery.attempt_count + 1,
      isLast: !delivered && !delivery.is_replay && failures >= mostAttempts,
      latencyMs: endedAt.getTime() - happenedAt(delivery.body, delivery.created_at).getTime(),
    }
  }

  #observe(work: Work, result: AttemptResult, at: Date): void {
    attemptsMade.inc({ class: result.error ?? 'delivered', attempt: attemptKindOf(work) })
    attemptSeconds.observe(result.durationMs / 1000)
    if (result.forOperator !== null) {
      const { id: delivery_id, endpoint_id } = work.delivery
      this.#options.log.info({ delivery_id, endpoint_id, reason: result.forOperator }, 'attempt was refused')
    }
    if (attemptKindOf(work) === 'first') {
      const waitedMs = at.getTime() - work.delivery.created_at.getTime()
      firstAttemptDelay.observe(Math.max(0, waitedMs) / 1000)
    }
  }

  #written(results: Result[], { advanced, disabled }: Outcomes): void {
    const attempts = new Map(results.map((result) => [result.deliveryId, result.attempt]))
    const now = this.#options.clock.now().getTime()
    for (const { delivery_id: deliveryId, attempt_count: attemptCount, due_at: dueAt } of advanced) {
      if (attemptCount !== attempts.get(deliveryId)) duplicatesSent.inc()
      if (dueAt) this.#claimer.wakeIn(dueAt.getTime() - now)
    }
    if (disabled.length === 0) return
    for (const id of disabled) this.#close(id)
    this.#options.alertQueued()
    this.#options.announce(disabled)
  }

  #close(endpointId: string): void {
    this.#scheduler.drop(endpointId)
    this.#book.close(endpointId)
    this.#options.sender.forget(endpointId)
  }
}

function endingOf({ outcome, error }: AttemptResult): Ending {
  if (outcome === 'delivered') return 'delivered'
  return error === 'timeout' ? 'timeout' : 'failed'
}

/** If there was an answer, its code says it; else what went wrong, with a sentence about it. */
function errorText({ error, detail }: AttemptResult): string | null {
  if (error === null || error === 'status') return detail
  // A vendor cannot distinguish a name that does not exist from one that leads into the operator's network.
  const shown = error === 'dns' ? 'blocked' : error
  return detail === null ? shown : `${shown}: ${detail}`
}
