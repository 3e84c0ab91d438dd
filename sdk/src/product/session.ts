import { Background, dueTimes, type DueTimes } from './background.ts'
import type { OperationContext } from './operation-context.ts'
import type { Installation } from './installation.ts'
import type { LicenceState, Problem } from './state.ts'
import type { LicenceStore } from './store.ts'

/** Called after each change of the state. Its errors are ignored. */
export type LicenceListener = (state: LicenceState) => void

type Operation = (signal: AbortSignal) => Promise<void>

interface SessionParts {
  readonly context: OperationContext
  readonly store: LicenceStore
  readonly timeoutMs: number
  /** The background work; null if there is none. */
  readonly backgroundTasks: Readonly<Record<'check' | 'renew', () => Promise<unknown>>> | null
}

/** Runs operations on an installation, one at a time, each with a timeout, and saves the result. Never rejects. */
export class Session {
  readonly installation: Installation
  readonly #parts: SessionParts
  readonly #background: Background | null
  readonly #listeners = new Set<LicenceListener>()
  readonly #running = new Map<string, Promise<LicenceState>>()
  readonly #stop = new AbortController()
  readonly #jitter = Math.random()
  /** The text of the store that was last read or written; undefined before the first read. */
  #storeText: string | null | undefined
  #storeWorks = true
  #lastOperation: Promise<unknown> = Promise.resolve()
  #notifiedState = ''
  /** Whether the product has asked for a licence. */
  isRequested = false

  constructor(parts: SessionParts) {
    this.#parts = parts
    this.installation = parts.context.installation
    this.#background =
      parts.backgroundTasks &&
      new Background(
        () => this.#dueTimes(),
        () => this.#runDueTasks(),
      )
  }

  /** Whether an operation has run, so that the store was read. */
  get started(): boolean {
    return this.#running.size > 0 || this.#storeText !== undefined
  }

  /** Runs an operation. If the same operation is waiting or running, returns its result. */
  run(name: string, operation: Operation): Promise<LicenceState> {
    const running = this.#running.get(name)
    if (running) return running
    const outcome = this.#lastOperation
      .then(() => this.#perform(operation))
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

  async #perform(operation: Operation): Promise<LicenceState> {
    try {
      await this.#read()
      if (this.#stop.signal.aborted) return this.installation.state()
      await withDeadline(this.#parts.timeoutMs, this.#stop.signal, operation)
    } catch (error) {
      this.#recordProblem('internal', 'unexpected_error', error)
    }
    await this.#save()
    this.#notifyListeners()
    this.#background?.schedule()
    return this.installation.state()
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
    await this.#merge(text)
  }

  async #merge(text: string | null): Promise<void> {
    if (text === this.#storeText) return
    await this.installation.merge(text)
    this.#storeText = text
  }

  async #save(): Promise<void> {
    const { store, timeoutMs } = this.#parts
    const change = async (text: string | null) => {
      await this.#merge(text)
      this.#storeText = this.installation.save(text)
      return this.#storeText
    }
    try {
      await withTimeout(timeoutMs, () => (store.update ? store.update(change) : replace(store, change)))
      this.#storeWorks = true
      this.installation.recordProblem('store', null)
    } catch (error) {
      this.#storeWorks = false
      this.#recordProblem('store', 'store_failed', error)
    }
  }

  #recordProblem(operation: Problem['operation'], code: string, error: unknown): void {
    const detail = error instanceof Error ? error.message : String(error)
    this.installation.recordProblem(operation, { code, detail })
  }

  #notifyListeners(): void {
    const state = this.installation.state()
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
    const { context } = this.#parts
    return dueTimes({
      installation: this.installation,
      tokenBackoff: context.backoff('token'),
      listBackoff: context.backoff('list'),
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
