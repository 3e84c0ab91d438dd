import { readFile, rename, writeFile } from 'node:fs/promises'

const minPauseMs = 100

/** Keeps the state in a JSON file. Changes within a short time are written together. */
export class StateFile {
  readonly #path: string
  readonly #dump: () => object
  #pauseMs = minPauseMs
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

  /** Writes the file atomically, so that a crash leaves the old or the new file, never a partial one. */
  async #write(): Promise<void> {
    const started = performance.now()
    await writeFile(`${this.#path}.new`, JSON.stringify(this.#dump()))
    await rename(`${this.#path}.new`, this.#path)
    // Writing a large state takes long, so the pause grows with it, and most of the time is left for other work.
    this.#pauseMs = Math.max(minPauseMs, 10 * (performance.now() - started))
  }
}

/** Reads the state; null if there is no file yet. */
export async function readStateFile(path: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path, 'utf8'))
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw new Error(`STATE_FILE ${path} cannot be read; delete it to start with an empty state`, {
      cause: error,
    })
  }
}

function reportAndGoOn(error: unknown): void {
  process.emitWarning(`the simulator's state could not be written: ${String(error)}`)
}
