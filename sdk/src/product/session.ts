import { Background, duties, type Duties } from './background.ts'
import type { Contact } from './contact.ts'
import type { Installation } from './installation.ts'
import type { LicenceState, Problem } from './state.ts'
import type { LicenceStore } from './store.ts'

/** Called after each change of the state. Its errors are ignored. */
export type LicenceListener = (state: LicenceState) => void

type Operation = (signal: AbortSignal) => Promise<void>

interface SessionParts {
  readonly contact: Contact
  readonly store: LicenceStore
  readonly timeoutMs: number
  /** The background work; null if there is none. */
  readonly chores: Readonly<Record<'check' | 'renew', () => Promise<unknown>>> | null
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
  #known: string | null | undefined
  #storeWorks = true
  #tail: Promise<unknown> = Promise.resolve()
  #announced = ''
  /** Whether the product has asked for a licence. */
  wanted = false

  constructor(parts: SessionParts) {
    this.#parts = parts
    this.installation = parts.contact.installation
    this.#background =
      parts.chores &&
      new Background(
        () => this.#due(),
        () => this.#work(),
      )
  }

  /** Whether an operation has run, so that the store was read. */
  get started(): boolean {
    return this.#running.size > 0 || this.#known !== undefined
  }

  /** Runs an operation. If the same operation is waiting or running, returns its result. */
  run(name: string, operation: Operation): Promise<LicenceState> {
    const running = this.#running.get(name)
    if (running) return running
    const outcome = this.#tail.then(() => this.#perform(operation)).finally(() => this.#running.delete(name))
    this.#running.set(name, outcome)
    this.#tail = outcome
    return outcome
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
      this.#note('internal', 'unexpected_error', error)
    }
    await this.#save()
    this.#announce()
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
      text = (await within(this.#parts.timeoutMs, () => this.#parts.store.read())) ?? null
    } catch (error) {
      this.#storeWorks = false
      this.#note('store', 'store_failed', error)
    }
    await this.#merge(text)
  }

  async #merge(text: string | null): Promise<void> {
    if (text === this.#known) return
    await this.installation.merge(text)
    this.#known = text
  }

  async #save(): Promise<void> {
    const { store, timeoutMs } = this.#parts
    const change = async (text: string | null) => {
      await this.#merge(text)
      this.#known = this.installation.save(text)
      return this.#known
    }
    try {
      await within(timeoutMs, () => (store.update ? store.update(change) : replace(store, change)))
      this.#storeWorks = true
      this.installation.note('store', null)
    } catch (error) {
      this.#storeWorks = false
      this.#note('store', 'store_failed', error)
    }
  }

  #note(operation: Problem['operation'], code: string, error: unknown): void {
    const detail = error instanceof Error ? error.message : String(error)
    this.installation.note(operation, { code, detail })
  }

  #announce(): void {
    const state = this.installation.state()
    const announced = JSON.stringify({ ...state, problem: state.problem?.code })
    if (announced === this.#announced || this.#stop.signal.aborted) return
    this.#announced = announced
    for (const listener of this.#listeners) {
      try {
        listener(state)
      } catch {
        // An error of a listener does not affect the licence.
      }
    }
  }

  #due(): Duties {
    const { contact } = this.#parts
    return duties({
      installation: this.installation,
      tokenPace: contact.pace('token'),
      listPace: contact.pace('list'),
      wanted: this.wanted,
      jitter: this.#jitter,
    })
  }

  async #work(): Promise<void> {
    const { time, list, token } = this.#due()
    if (list !== null && list <= time) await this.#parts.chores?.check()
    if (token !== null && token <= time) await this.#parts.chores?.renew()
    this.#announce()
  }
}

const MOST_TRIES = 3

/**
 * For a store without `update`: reads, changes, writes, and reads again to check. Another process can still overwrite it
 * after the last check.
 */
async function replace(store: LicenceStore, change: (text: string | null) => Promise<string>): Promise<void> {
  let found = await store.read()
  for (let tries = 0; tries < MOST_TRIES; tries++) {
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
function within<T>(ms: number, work: () => T | Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`timed out after ${ms} ms`)), ms)
    Promise.resolve()
      .then(work)
      .then(resolve, reject)
      .finally(() => clearTimeout(timer))
  })
}
