import { randomUUID } from 'node:crypto'
import type { Database } from '@licensing/database/connect'
import type { EncryptionKeys } from '@licensing/database/encryption'
import type { Logger } from '@licensing/process/log'
import type { Clock } from '@licensing/process/clock'
import type { Backoff } from '../deliveries/backoff.ts'
import type { Claim } from '../deliveries/delivery-queries.ts'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'
import type { AttemptResult, Sender } from '../http-client/sender.ts'
import { finishAttempt, recordAttempts } from './attempt-queries.ts'
import type { FinishedAttempt, RecordedAttempts } from './attempt-queries.ts'
import { AttemptWriter } from './attempt-writer.ts'
import { attempt } from './attempt.ts'
import { attemptKindOf, leaseMs } from './claimed-delivery.ts'
import type { DueDelivery } from '../deliveries/delivery.ts'
import type { ClaimedDelivery } from './claimed-delivery.ts'
import { Claimer } from './claimer.ts'
import { EndpointCache } from './endpoint-cache.ts'
import type { AttemptOutcome } from './endpoint-queue.ts'
import {
  attemptSeconds,
  attemptsMade,
  duplicatesSent,
  endpointsDisabled,
  firstAttemptDelay,
  queuedDeliveries,
  slotsBusy,
  unreadableSecrets,
} from './metrics.ts'
import type { NextAttempt } from './scheduler.ts'
import { Scheduler } from './scheduler.ts'

export interface DispatcherOptions {
  sql: Database
  /** Connections that record attempts: see `attemptSettings`. */
  attemptSql: Database
  sender: Sender
  keys: EncryptionKeys
  clock: Clock
  backoff: Backoff
  /** Payloads of events recorded before this time are past retention. */
  keptSince: () => Date
  slots: number
  log: Logger
  /** Called when an alert was queued. */
  alertQueued: () => void
  /** Called when attempts were recorded. */
  attemptsRecorded: (attempts: FinishedAttempt[]) => void
  /** Notifies the other replicas that endpoints have changed. */
  notifyReplicas: (endpointIds: string[]) => void
}

// Starting an attempt takes a third of a millisecond, and an endpoint may have 32 attempts to start at once.
const maxStarted = 4

/** Deliveries that a transaction claimed for this process when it inserted or updated them. */
export interface Lease {
  claim: Claim
  /** Call this after the commit. */
  send: () => void
}

/**
 * Sends due deliveries. PostgreSQL has the state of every delivery; this process has only copies of the deliveries that it has
 * claimed. It may be killed at any time: its leases end, and other processes claim the deliveries.
 *
 * The path of a delivery: `lease` or the claimer → scheduler → attempt → attempt writer → claimer, when a retry is due.
 */
export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #scheduler: Scheduler
  readonly #endpoints: EndpointCache
  readonly #writer: AttemptWriter<RecordedAttempts>
  readonly #claimer: Claimer
  #isStopping = false
  #inFlight = 0
  #startedInTick = 0
  #slowTimer: NodeJS.Timeout | undefined
  #onNoneInFlight: () => void = () => {}

  constructor(options: DispatcherOptions) {
    this.#options = options
    this.#scheduler = new Scheduler(options.slots)
    this.#endpoints = new EndpointCache(options.keys, options.log)
    this.#writer = new AttemptWriter({
      record: (attempts) => recordAttempts(options.attemptSql, options.clock.now(), attempts),
      recorded: (attempts, recorded) => this.#recorded(attempts, recorded),
      log: options.log,
    })
    this.#claimer = new Claimer({
      sql: options.sql,
      clock: options.clock,
      log: options.log,
      scheduler: this.#scheduler,
      endpoints: this.#endpoints,
      startAttempts: () => this.#startAttempts(),
      keptSince: options.keptSince,
      isBehind: () => this.#writer.isBehind,
      alertQueued: options.alertQueued,
    })
  }

  start(): void {
    this.#claimer.start()
  }

  /** Updates the gauges. */
  measure(): void {
    for (const [of, busy] of Object.entries(this.#scheduler.busy)) slotsBusy.set({ of }, busy)
    queuedDeliveries.set(this.#scheduler.queued)
    unreadableSecrets.set(this.#endpoints.unreadableCount)
  }

  /** Leases as many deliveries as there is capacity for. The others wait for any replica that has capacity. */
  lease(deliveries: DueDelivery[], endpoints: EndpointRow[]): Lease {
    const claimId = randomUUID()
    const leaseEndsAt = performance.now() + leaseMs
    const rows = new Map(endpoints.map((row) => [row.id, row]))
    const capacity = new Map<string, number>()
    const leased: DueDelivery[] = []
    // The transaction has locked the rows, so an endpoint stays paused until it ends.
    const paused = new Set(endpoints.flatMap((row) => (row.paused ? [row.id] : [])))
    for (const delivery of this.#isStopping ? [] : deliveries) {
      const { endpoint_id: endpointId } = delivery
      const settings = this.#endpoints.open(rows.get(endpointId)!)
      if (!settings || paused.has(endpointId)) continue
      const left = capacity.get(endpointId) ?? this.#scheduler.capacity(settings)
      capacity.set(endpointId, left - 1)
      if (left > 0) leased.push(delivery)
      else this.#claimer.markBacklogged(endpointId)
    }
    const deliveryIds = new Set(leased.map(({ id }) => id))
    const isWaiting = deliveries.some(({ id, endpoint_id: of }) => !deliveryIds.has(id) && !paused.has(of))
    const send = () => {
      const released: ClaimedDelivery[] = []
      for (const delivery of leased) {
        // The endpoint may have changed while the transaction committed.
        const settings = this.#endpoints.open(rows.get(delivery.endpoint_id)!)
        if (!settings) continue
        const claimed = { delivery, claimId, leaseEndsAt }
        if (settings.paused) released.push(claimed)
        else this.#scheduler.add(settings, claimed)
      }
      if (released.length > 0) this.#claimer.release(released)
      if (leased.length > 0) this.#claimer.onQueued()
      if (isWaiting) this.#claimer.wake()
      this.#startAttempts()
    }
    return { claim: { id: claimId, leaseMs, deliveryIds, paused }, send }
  }

  /** Call this when a delivery is due that was not leased. */
  wake(): void {
    this.#claimer.wake()
  }

  /** Sends deliveries whose attempt has not begun as the endpoint is from now on, or not if it is paused or disabled. */
  endpointsChanged(rows: EndpointRow[]): void {
    this.applyChanges(rows)
    this.#options.notifyReplicas(rows.map(({ id }) => id))
  }

  /** Like `endpointsChanged`, for a change that another replica announced. */
  applyChanges(rows: EndpointRow[]): void {
    for (const row of rows) {
      if (row.status === 'disabled') this.#close(row.id)
      else {
        const settings = this.#endpoints.open(row)
        if (!settings) continue
        this.#scheduler.change(settings)
        if (settings.paused) this.#claimer.release(this.#scheduler.drop(row.id))
      }
    }
    // An endpoint may have been resumed.
    if (rows.some(({ paused }) => !paused)) this.#claimer.wake()
  }

  /** Waits for the attempts in flight, records them, and releases the claims of deliveries that were not started. */
  async stop(): Promise<void> {
    this.#isStopping = true
    clearTimeout(this.#slowTimer)
    await this.#claimer.stop()
    if (this.#inFlight > 0) await new Promise<void>((resolve) => (this.#onNoneInFlight = resolve))
    await this.#writer.drain()
  }

  /** Starts a few attempts in each turn of the event loop, so that other work gets time in between. */
  #startAttempts(): void {
    while (!this.#isStopping && this.#startedInTick < maxStarted) {
      const now = performance.now()
      const next = this.#scheduler.next(now)
      if (!next) return this.#scheduleSlow(now)
      this.#startedInTick += 1
      if (this.#startedInTick === 1) setImmediate(() => this.#nextTick())
      this.#inFlight += 1
      void this.#send(next).finally(() => {
        this.#inFlight -= 1
        if (this.#inFlight === 0) this.#onNoneInFlight()
        this.#claimer.refill(next.settings.id)
        this.#startAttempts()
      })
    }
  }

  #nextTick(): void {
    this.#startedInTick = 0
    this.#startAttempts()
  }

  #scheduleSlow(now: number): void {
    const from = this.#scheduler.slowFrom(now)
    if (from === undefined || this.#slowTimer) return
    this.#slowTimer = setTimeout(() => {
      this.#slowTimer = undefined
      this.#startAttempts()
    }, from - now)
  }

  async #send(next: NextAttempt): Promise<void> {
    const { clock, sender, log, backoff } = this.#options
    const { claimed } = next
    const at = clock.now()
    try {
      const result = await attempt(sender, next, at)
      this.#scheduler.ended(claimed, outcomeOf(result), performance.now())
      this.#observe(claimed, result, at)
      this.#writer.add(finishAttempt(claimed, result, { at, endedAt: clock.now(), backoff }))
    } catch (error) {
      // A fault of this service: when the lease ends, the delivery is sent again.
      this.#scheduler.ended(claimed, 'failed', performance.now())
      log.error({ err: error, delivery_id: claimed.delivery.id }, 'attempt could not be made')
    }
  }

  #observe(claimed: ClaimedDelivery, result: AttemptResult, at: Date): void {
    attemptsMade.inc({ class: result.error ?? 'delivered', attempt: attemptKindOf(claimed) })
    attemptSeconds.observe(result.durationMs / 1000)
    if (result.forOperator !== null) {
      const { id: delivery_id, endpoint_id } = claimed.delivery
      this.#options.log.info({ delivery_id, endpoint_id, reason: result.forOperator }, 'attempt was refused')
    }
    if (attemptKindOf(claimed) === 'first') {
      const waitedMs = at.getTime() - claimed.delivery.created_at.getTime()
      firstAttemptDelay.observe(Math.max(0, waitedMs) / 1000)
    }
  }

  #recorded(attempts: FinishedAttempt[], { updated, disabled }: RecordedAttempts): void {
    this.#options.attemptsRecorded(attempts)
    const numbers = new Map(attempts.map((finished) => [finished.deliveryId, finished.attempt]))
    const now = this.#options.clock.now().getTime()
    for (const { delivery_id: deliveryId, attempt_count: attemptCount, due_at: dueAt } of updated) {
      if (attemptCount !== numbers.get(deliveryId)) duplicatesSent.inc()
      if (dueAt) this.#claimer.wakeIn(dueAt.getTime() - now)
    }
    if (disabled.length === 0) return
    endpointsDisabled.inc({ reason: 'retries_exhausted' }, disabled.length)
    this.#options.log.warn({ endpoint_ids: disabled }, 'endpoints disabled: retries exhausted')
    for (const id of disabled) this.#close(id)
    this.#options.alertQueued()
    this.#options.notifyReplicas(disabled)
  }

  #close(endpointId: string): void {
    this.#scheduler.drop(endpointId)
    this.#endpoints.close(endpointId)
    this.#options.sender.closeConnections(endpointId)
  }
}

function outcomeOf({ outcome, error }: AttemptResult): AttemptOutcome {
  if (outcome === 'delivered') return 'delivered'
  return error === 'timeout' ? 'timeout' : 'failed'
}
