import { performance } from 'node:perf_hooks'
import { currentMs } from '@licensing/process/clock'
import { Connection, type ConnectionLimits, IdleConnections } from './connection.ts'
import type { Connect } from './connector.ts'
import { excerptOf, retryAfterSeconds, Exchange } from './exchange.ts'
import { exchangeFailure, type FailureReason, isDropped, SendFailure } from './failure.ts'
import { targetOf } from './webhook-url.ts'

/**
 * The time limit of an attempt. Node keeps timers of one length in one list: to set and clear one takes 0.5 µs (measured), an
 * AbortSignal.timeout takes 10.
 */
export class Deadline {
  isPast = false
  #end: (() => void) | null = null
  readonly #timer: NodeJS.Timeout

  constructor(timeoutMs: number) {
    this.#timer = setTimeout(() => {
      this.isPast = true
      this.#end?.()
    }, timeoutMs)
  }

  /**
   * Sets the function that the deadline calls from now on. It is a parameter because of V8: a function literal that is assigned
   * to a property is treated as permanent, and its closure is kept until the whole heap is collected.
   */
  onEnd(end: () => void) {
    this.#end = end
  }

  clear() {
    clearTimeout(this.#timer)
    this.#end = null
  }
}

export type Attempt = {
  endpointId: string
  /** A URL that passed registration. */
  url: string
  /** Names and values in turn. */
  headers: string[]
  body: Buffer
}

export type AttemptResult = {
  outcome: 'delivered' | 'failed'
  responseCode: number | null
  error: FailureReason | null
  /** A sentence for the vendor with more information than `error`. */
  detail: string | null
  /** Details that the vendor may not see. */
  forOperator: string | null
  durationMs: number
  responseExcerpt: string | null
  retryAfterSeconds: number | null
}

export type SenderOptions = {
  connect: Connect
  /** For the whole attempt: name resolution, connection, handshake and response with its body. */
  timeoutMs?: number
  connectionLimits?: ConnectionLimits
  maxIdleConnections?: number
}

/**
 * Makes single attempts, without retries. Measured: over a kept connection an attempt costs 1.2 to 1.5 times the CPU of the
 * HTTP client alone, over a new connection with a resumed TLS session 18 times.
 */
export class Sender {
  readonly #connect: Connect
  readonly #timeoutMs: number
  readonly #connectionLimits: ConnectionLimits
  readonly #idle: IdleConnections
  readonly #stats = { inFlight: 0, connectionsOpened: 0, resends: 0 }
  #onDrained: (() => void) | null = null

  constructor({
    connect,
    timeoutMs = 5000,
    connectionLimits = { maxAgeMs: 120_000, idleLifeMs: 45_000 },
    maxIdleConnections = 2000,
  }: SenderOptions) {
    this.#connect = connect
    this.#timeoutMs = timeoutMs
    this.#connectionLimits = connectionLimits
    this.#idle = new IdleConnections(maxIdleConnections)
  }

  /** Numbers for metrics. A request is sent again if a kept connection was dead. */
  get stats() {
    return { ...this.#stats, idleConnections: this.#idle.size }
  }

  /** Never rejects because of the receiver or the network. */
  async send(attempt: Attempt): Promise<AttemptResult> {
    const startedAt = performance.now()
    const deadline = new Deadline(this.#timeoutMs)
    this.#stats.inFlight += 1
    try {
      return resultOf(await this.#exchange(attempt, deadline), startedAt)
    } catch (error) {
      if (error instanceof SendFailure) return resultOf(error, startedAt)
      throw error
    } finally {
      deadline.clear()
      this.#stats.inFlight -= 1
      if (this.#stats.inFlight === 0) this.#onDrained?.()
    }
  }

  /** Closes the kept connections of an endpoint that gets no more deliveries. */
  closeConnections(endpointId: string) {
    this.#idle.close(endpointId)
  }

  /** Waits for the attempts in flight, which the deadline bounds, then closes every connection. */
  async close() {
    if (this.#stats.inFlight > 0) await new Promise<void>((resolve) => (this.#onDrained = resolve))
    this.#idle.close()
  }

  async #exchange(attempt: Attempt, deadline: Deadline): Promise<Exchange> {
    const idleConnection = this.#idle.take(attempt.endpointId, attempt.url)
    if (idleConnection !== null) {
      const exchange = await this.#exchangeOn(idleConnection, attempt, deadline)
      if (!isStale(exchange) || deadline.isPast) return exchange
      this.#stats.resends += 1
    }
    return this.#exchangeOn(await this.#open(attempt.url, deadline), attempt, deadline)
  }

  async #exchangeOn(connection: Connection, attempt: Attempt, deadline: Deadline): Promise<Exchange> {
    const exchange = new Exchange(connection, attempt)
    deadline.onEnd(() => exchange.cut(this.#timedOut('no answer')))
    await exchange.ended
    if (exchange.error === null) this.#idle.put(attempt.endpointId, connection)
    else connection.destroy()
    return exchange
  }

  async #open(url: string, deadline: Deadline): Promise<Connection> {
    const abort = new AbortController()
    deadline.onEnd(() => abort.abort())
    try {
      const target = targetOf(url)
      const socket = await this.#connect(target, abort.signal)
      this.#stats.connectionsOpened += 1
      const connection = new Connection(target, socket, this.#connectionLimits)
      connection.onceClosed(() => this.#idle.remove(connection))
      return connection
    } catch (error) {
      throw abort.signal.aborted ? this.#timedOut('no connection') : error
    }
  }

  #timedOut(what: string) {
    return new SendFailure('timeout', `${what} within ${this.#timeoutMs / 1000} seconds`)
  }
}

/** The server has probably closed the kept connection before it received the request. */
const isStale = ({ error, isAnswered }: Exchange) => error !== null && !isAnswered && isDropped(error)

function resultOf(ended: Exchange | SendFailure, startedAt: number): AttemptResult {
  const durationMs = Math.round(performance.now() - startedAt)
  if (ended instanceof SendFailure || ended.status === null) {
    const failure =
      ended instanceof SendFailure
        ? ended
        : exchangeFailure(ended.error ?? new Error('no answer'), ended.isAnswered)
    return {
      outcome: 'failed',
      responseCode: null,
      error: failure.reason,
      detail: failure.message,
      forOperator: failure.forOperator,
      durationMs,
      responseExcerpt: null,
      retryAfterSeconds: null,
    }
  }
  // Only the status decides, even if the body of the response never ends or is cut.
  const isAcknowledged = ended.status >= 200 && ended.status < 300
  const isRedirect = ended.status >= 300 && ended.status < 400
  return {
    outcome: isAcknowledged ? 'delivered' : 'failed',
    responseCode: ended.status,
    error: isAcknowledged ? null : 'status',
    detail: isRedirect ? 'redirects are not followed' : null,
    forOperator: null,
    durationMs,
    responseExcerpt: excerptOf(ended.kept),
    retryAfterSeconds: isAcknowledged ? null : retryAfterSeconds(ended.retryAfter, currentMs()),
  }
}
