import { NO_ATTEMPTS, withNewToken, withProblem, type Attempts } from './attempts.ts'
import { Background, dueTimes, type DueTimes } from './background.ts'
import { check, refresh, type Calling } from './calls.ts'
import {
  absorb,
  apply,
  emptyHeld,
  observed,
  tokenOf,
  withFileNonce,
  type Held,
  type Verified,
} from './held.ts'
import type { Operation, ProblemCode } from './reasons.ts'
import { readRecord, writeRecord } from './record.ts'
import type { Answer, Ask, Call } from './service.ts'
import { stateOf, type LicenceState } from './state.ts'
import { replace, type LicenceStore } from './store.ts'
import type { Identity } from './trust.ts'

/** Called after each change of the state. Its errors are ignored. */
export type LicenceListener = (state: LicenceState) => void

interface SessionOptions {
  readonly identity: Identity
  readonly product: Calling['product']
  readonly ask: Ask
  readonly clock: () => number
  readonly newNonce: () => string
  readonly store: LicenceStore
  readonly timeoutMs: number
  readonly background: boolean
}

/**
 * Keeps the two values of an installation, and a lock: one call runs at a time, with a timeout, between a read of the store
 * and a save. Never rejects.
 */
export class Session implements Calling {
  readonly identity: Identity
  readonly product: Calling['product']
  readonly newNonce: () => string
  /** Repeats the call with which the product asked for a licence last; null if it did not, or has freed the licence since. */
  request: (() => Promise<LicenceState>) | null = null
  readonly #options: SessionOptions
  readonly #background: Background | null
  readonly #listeners = new Set<LicenceListener>()
  readonly #running = new Map<string, Promise<LicenceState>>()
  readonly #jitter = Math.random()
  #held: Held
  #attempts = NO_ATTEMPTS
  /** The text of the store that was last read or written; undefined before the first read. */
  #storeText: string | null | undefined
  /** The revision of that text, if it belongs to another licence key or machine. */
  #foreignRevision: number | null = null
  #storeWorks = true
  #lastCall: Promise<unknown> = Promise.resolve()
  /** Ends the requests of the call that is running. */
  #requests = new AbortController()
  #stopped = false
  #notifiedState = ''

  constructor(options: SessionOptions) {
    this.#options = options
    this.identity = options.identity
    this.product = options.product
    this.newNonce = options.newNonce
    this.#held = emptyHeld(options.identity.licenceKey, options.clock())
    const background = () =>
      new Background(
        () => this.#dueTimes(),
        () => this.#runDueTasks(),
      )
    this.#background = options.background ? background() : null
  }

  get held(): Held {
    return this.#held
  }

  get attempts(): Attempts {
    return this.#attempts
  }

  get state(): LicenceState {
    this.time()
    return stateOf(this.#held, this.#attempts)
  }

  time(): number {
    this.#held = observed(this.#held, this.#options.clock())
    return this.#held.time.time
  }

  apply(answer: Verified): void {
    this.time()
    this.#held = apply(this.#held, answer)
  }

  record(change: Partial<Attempts>): void {
    this.#attempts = { ...this.#attempts, ...change }
  }

  ask(call: Call): Promise<Answer> {
    return this.#options.ask(call, this.#requests.signal)
  }

  /** The nonce of a request for an offline file; null if the file need not set the time back. */
  nonceForFile(): string | null {
    this.time()
    this.#held = withFileNonce(this.#held, this.newNonce)
    return this.#held.licence.nonce
  }

  /** Whether a call was made, so that the store is read. */
  get started(): boolean {
    return this.#running.size > 0 || this.#storeText !== undefined
  }

  /** Runs a call. If the same call is waiting or running, returns its result. */
  run(name: string, work: () => Promise<void>): Promise<LicenceState> {
    const running = this.#running.get(name)
    if (running) return running
    const outcome = this.#lastCall.then(() => this.#perform(work)).finally(() => this.#running.delete(name))
    this.#running.set(name, outcome)
    this.#lastCall = outcome
    return outcome
  }

  /** Lets the background renew a token at once that has ended. */
  wake(): void {
    this.#background?.wake()
  }

  listen(listener: LicenceListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  stop(): void {
    this.#stopped = true
    this.#requests.abort()
    this.#background?.stop()
    this.#listeners.clear()
  }

  async #perform(work: () => Promise<void>): Promise<LicenceState> {
    let timer: ReturnType<typeof setTimeout> | undefined
    try {
      await this.#read()
      if (this.#stopped) return this.state
      const requests = new AbortController()
      this.#requests = requests
      timer = setTimeout(() => requests.abort(), this.#options.timeoutMs)
      await work()
    } catch (error) {
      this.#recordProblem('internal', 'unexpected_error', error)
    }
    clearTimeout(timer)
    await this.#save()
    this.#notifyListeners()
    this.#background?.schedule()
    return this.state
  }

  /**
   * Reads the store before each call, because other processes may have written. After an error, only a save
   * tries again.
   */
  async #read(): Promise<void> {
    if (!this.#storeWorks) return
    let text: string | null = null
    try {
      // A `Map` returns `undefined` if it has no text.
      text = (await withTimeout(this.#options.timeoutMs, () => this.#options.store.read())) ?? null
    } catch (error) {
      this.#storeWorks = false
      this.#recordProblem('store', 'store_failed', error)
    }
    await this.#absorb(text)
  }

  async #absorb(text: string | null): Promise<void> {
    if (text === this.#storeText) return
    this.time()
    const { held, absence, foreignRevision } = await readRecord(text, this.#held, this.identity)
    this.time()
    const before = tokenOf(this.#held)
    this.#held = absorb(this.#held, held)
    this.#foreignRevision = foreignRevision
    this.#storeText = text
    if (this.#attempts.isStoreRead) {
      const after = tokenOf(this.#held)
      if (before?.jws !== after?.jws)
        this.record(withNewToken(this.#attempts, after ? undefined : 'deactivated'))
      return
    }
    // At the first read, the record says why there is no token. A record of another licence key is replaced.
    this.record({ isStoreRead: true, absence: absence ?? this.#attempts.absence })
    if (foreignRevision === null) return
    this.#held = { ...this.#held, licence: { ...this.#held.licence, revision: foreignRevision + 1 } }
  }

  async #save(): Promise<void> {
    const { store, timeoutMs } = this.#options
    const change = async (text: string | null) => {
      await this.#absorb(text)
      // The store now belongs to another product or machine, which was activated later.
      if (text !== null && (this.#foreignRevision ?? 0) > this.#held.licence.revision) return text
      this.nonceForFile()
      this.#foreignRevision = null
      this.#storeText = writeRecord(this.#held, this.identity)
      return this.#storeText
    }
    try {
      await withTimeout(timeoutMs, () => (store.update ? store.update(change) : replace(store, change)))
      this.#storeWorks = true
      this.record(withProblem(this.#attempts, 'store', null, this.time()))
    } catch (error) {
      this.#storeWorks = false
      this.#recordProblem('store', 'store_failed', error)
    }
  }

  #recordProblem(operation: Operation, code: ProblemCode, error: unknown): void {
    const detail = error instanceof Error ? error.message : String(error)
    this.record(withProblem(this.#attempts, operation, { code, detail }, this.time()))
  }

  #notifyListeners(): void {
    const { state } = this
    const notifiedState = JSON.stringify({ ...state, problem: state.problem?.code })
    if (notifiedState === this.#notifiedState || this.#stopped) return
    this.#notifiedState = notifiedState
    for (const listener of this.#listeners) {
      try {
        listener(state)
      } catch {
        // An error of a listener does not affect the licence.
      }
    }
  }

  #dueTimes(): DueTimes {
    this.time()
    return dueTimes(this.#held, this.#attempts, this.request !== null, this.#jitter)
  }

  async #runDueTasks(): Promise<void> {
    const { list, time: before } = this.#dueTimes()
    if (list !== null && list <= before) await this.run('check', () => check(this))
    // Read again: meanwhile the product may have released or freed its place.
    const { token, time } = this.#dueTimes()
    if (token !== null && token <= time) {
      await (tokenOf(this.#held) ? this.run('refresh', () => refresh(this)) : this.request?.())
    }
    this.#notifyListeners()
  }
}

/** Waits for work that accepts no signal, at most `ms` milliseconds. */
function withTimeout<T>(ms: number, work: () => T | Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`timed out after ${ms} ms`)), ms)
    Promise.resolve()
      .then(work)
      .then(resolve, reject)
      .finally(() => clearTimeout(timer))
  })
}
