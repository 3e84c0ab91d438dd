import { NO_ATTEMPTS, withNewToken, withProblem, type Attempts } from './attempts.ts'
import { Background, dueTimes, type DueTimes } from './background.ts'
import type { Calling } from './calls.ts'
import {
  absorb,
  apply,
  emptyHeld,
  needsNonce,
  observed,
  tokenOf,
  withNonce,
  type Held,
  type Verified,
} from './held.ts'
import { readRecord, writeRecord } from './record.ts'
import type { Operation, ProblemCode } from './reasons.ts'
import type { Ask } from './service.ts'
import { stateOf, type LicenceState } from './state.ts'
import type { LicenceStore } from './store.ts'
import type { Identity } from './trust.ts'

/** Called after each change of the state. Its errors are ignored. */
export type LicenceListener = (state: LicenceState) => void

type Work = (signal: AbortSignal) => Promise<void>

interface SessionParts {
  readonly identity: Identity
  readonly product: Calling['product']
  readonly ask: Ask
  readonly clock: () => number
  readonly newNonce: () => string
  readonly store: LicenceStore
  readonly timeoutMs: number
  /** The background work; null if there is none. */
  readonly backgroundTasks: Readonly<Record<'check' | 'renew', () => Promise<unknown>>> | null
}

/**
 * Keeps the two values of an installation, and a lock: one operation runs at a time, with a timeout, between a read of the store
 * and a save. Never rejects.
 */
export class Session implements Calling {
  readonly identity: Identity
  readonly product: Calling['product']
  readonly ask: Ask
  readonly newNonce: () => string
  readonly #parts: SessionParts
  readonly #background: Background | null
  readonly #listeners = new Set<LicenceListener>()
  readonly #running = new Map<string, Promise<LicenceState>>()
  readonly #stop = new AbortController()
  readonly #jitter = Math.random()
  #held: Held
  #attempts = NO_ATTEMPTS
  /** The text of the store that was last read or written; undefined before the first read. */
  #storeText: string | null | undefined
  /** The revision of that text, if it belongs to another licence key or machine. */
  #foreignRevision: number | null = null
  #storeWorks = true
  #lastOperation: Promise<unknown> = Promise.resolve()
  #notifiedState = ''
  /** Whether the product has asked for a licence. */
  isRequested = false

  constructor(parts: SessionParts) {
    this.#parts = parts
    this.identity = parts.identity
    this.product = parts.product
    this.ask = parts.ask
    this.newNonce = parts.newNonce
    this.#held = emptyHeld(parts.identity.licenceKey, parts.clock())
    this.#background =
      parts.backgroundTasks &&
      new Background(
        () => this.#dueTimes(),
        () => this.#runDueTasks(),
      )
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
    this.#held = observed(this.#held, this.#parts.clock())
    return this.#held.time.time
  }

  apply(answer: Verified): void {
    this.#held = apply(this.#held, answer)
  }

  record(attempts: Attempts): void {
    this.#attempts = attempts
  }

  /** The nonce of a request for an offline file; null if the file need not set the time back. */
  nonceForFile(): string | null {
    this.time()
    if (needsNonce(this.#held)) this.#held = withNonce(this.#held, this.newNonce())
    return this.#held.licence.nonce
  }

  /** Whether an operation has run, so that the store was read. */
  get started(): boolean {
    return this.#running.size > 0 || this.#storeText !== undefined
  }

  /** Runs an operation. If the same operation is waiting or running, returns its result. */
  run(name: string, work: Work): Promise<LicenceState> {
    const running = this.#running.get(name)
    if (running) return running
    const outcome = this.#lastOperation
      .then(() => this.#perform(work))
      .finally(() => this.#running.delete(name))
    this.#running.set(name, outcome)
    this.#lastOperation = outcome
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
    this.#stop.abort()
    this.#background?.stop()
    this.#listeners.clear()
  }

  async #perform(work: Work): Promise<LicenceState> {
    try {
      await this.#read()
      if (this.#stop.signal.aborted) return this.state
      await withDeadline(this.#parts.timeoutMs, this.#stop.signal, work)
    } catch (error) {
      this.#recordProblem('internal', 'unexpected_error', error)
    }
    await this.#save()
    this.#notifyListeners()
    this.#background?.schedule()
    return this.state
  }

  /**
   * Reads the store before each operation, because other processes may have written. After an error, only a save
   * tries again.
   */
  async #read(): Promise<void> {
    if (!this.#storeWorks) return
    let text: string | null = null
    try {
      // A `Map` returns `undefined` if it has no text.
      text = (await withTimeout(this.#parts.timeoutMs, () => this.#parts.store.read())) ?? null
    } catch (error) {
      this.#storeWorks = false
      this.#recordProblem('store', 'store_failed', error)
    }
    await this.#absorb(text)
  }

  async #absorb(text: string | null): Promise<void> {
    if (text === this.#storeText) return
    this.time()
    const found = await readRecord(text, this.#held, this.identity)
    this.time()
    const before = tokenOf(this.#held)
    this.#held = absorb(this.#held, found.held)
    this.#foreignRevision = found.foreignRevision
    const after = tokenOf(this.#held)
    if (!this.#attempts.isStoreRead) this.#start(found)
    else if (before?.jws !== after?.jws)
      this.#attempts = withNewToken(this.#attempts, after ? undefined : 'deactivated')
    this.#storeText = text
  }

  /** At the first read, the record says why there is no token. A record of another licence key is replaced. */
  #start({ absence, foreignRevision }: Awaited<ReturnType<typeof readRecord>>): void {
    this.#attempts = { ...this.#attempts, isStoreRead: true, absence: absence ?? this.#attempts.absence }
    if (foreignRevision === null) return
    this.#held = { ...this.#held, licence: { ...this.#held.licence, revision: foreignRevision + 1 } }
  }

  async #save(): Promise<void> {
    const { store, timeoutMs } = this.#parts
    const change = async (text: string | null) => {
      await this.#absorb(text)
      const { revision } = this.#held.licence
      // The store now belongs to another product or machine, which was activated later.
      if (text !== null && (this.#foreignRevision ?? 0) > revision) return text
      this.nonceForFile()
      this.#foreignRevision = null
      this.#storeText = writeRecord(this.#held, this.identity)
      return this.#storeText
    }
    try {
      await withTimeout(timeoutMs, () => (store.update ? store.update(change) : replace(store, change)))
      this.#storeWorks = true
      this.#attempts = withProblem(this.#attempts, 'store', null, this.time())
    } catch (error) {
      this.#storeWorks = false
      this.#recordProblem('store', 'store_failed', error)
    }
  }

  #recordProblem(operation: Operation, code: ProblemCode, error: unknown): void {
    const detail = error instanceof Error ? error.message : String(error)
    this.#attempts = withProblem(this.#attempts, operation, { code, detail }, this.time())
  }

  #notifyListeners(): void {
    const { state } = this
    const notifiedState = JSON.stringify({ ...state, problem: state.problem?.code })
    if (notifiedState === this.#notifiedState || this.#stop.signal.aborted) return
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
    return dueTimes({
      held: this.#held,
      attempts: this.#attempts,
      isRequested: this.isRequested,
      jitter: this.#jitter,
    })
  }

  async #runDueTasks(): Promise<void> {
    const before = this.#dueTimes()
    if (before.list !== null && before.list <= before.time) await this.#parts.backgroundTasks?.check()
    // Read again: meanwhile the product may have released or freed its place.
    const { token, time } = this.#dueTimes()
    if (token !== null && token <= time) await this.#parts.backgroundTasks?.renew()
    this.#notifyListeners()
  }
}

const MAX_TRIES = 3

/**
 * For a store without `update`: reads, changes, writes, and reads again to check. Another process can still overwrite it
 * after the last check.
 */
async function replace(store: LicenceStore, change: (text: string | null) => Promise<string>): Promise<void> {
  let found = await store.read()
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const text = await change(found)
    await store.write(text)
    found = await store.read()
    if (found === text) return
  }
  throw new Error('another process keeps replacing the content of the store')
}

/** Runs work with a signal that is aborted after `ms` milliseconds, or when `stop` is aborted. */
async function withDeadline<T>(
  ms: number,
  stop: AbortSignal,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const abort = () => controller.abort()
  const timer = setTimeout(abort, ms)
  stop.addEventListener('abort', abort, { once: true })
  try {
    if (stop.aborted) abort()
    return await run(controller.signal)
  } finally {
    clearTimeout(timer)
    stop.removeEventListener('abort', abort)
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
