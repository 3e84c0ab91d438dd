import { readFile, rename, writeFile } from 'node:fs/promises'

const leastPauseMs = 100

/** Keeps the state in one JSON file: changes that come close together are written together. */
export class StateFile {
  readonly #path: string
  readonly #dump: () => object
  #pauseMs = leastPauseMs
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> = Promise.resolve()

  constructor(path: string, dump: () => object) {
    this.#path = path
    this.#dump = dump
  }

  changed(): void {
    this.#timer ??= setTimeout(() => void this.flush().catch(reportAndGoOn), this.#pauseMs)
  }

  /** Writes pending changes. */
  async flush(): Promise<void> {
    if (this.#timer === undefined) return this.#writing
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#writing = this.#writing.catch(() => undefined).then(() => this.#write())
    return this.#writing
  }

  /** A crash leaves the old file or the new one, never half of one. */
  async #write(): Promise<void> {
    const started = performance.now()
    await writeFile(`${this.#path}.new`, JSON.stringify(this.#dump()))
    await rename(`${this.#path}.new`, this.#path)
    // A large state takes long to write: most of the time is left for the work itself.
    this.#pauseMs = Math.max(leastPauseMs, 10 * (performance.now() - started))
  }
}

/** Null when there is no file yet. */
export async function readStateFile(path: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path, 'utf8'))
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw new Error(`STATE_FILE ${path} cannot be read; delete it to start afresh`, { cause: error })
  }
}

function reportAndGoOn(error: unknown): void {
  process.emitWarning(`the simulator's state could not be written: ${String(error)}`)
}
