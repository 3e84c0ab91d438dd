import { readdir, stat } from 'node:fs/promises'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

// A build that takes longer is assumed to have been killed.
const maxBuildMs = 60_000
const pollMs = 200

/** The files of a built folder, read again after each build. */
export class BuiltFiles {
  readonly root: string
  readonly #index: string
  #builtMs = 0
  #names: ReadonlySet<string> = new Set()

  /** @param index a page that each build contains. The folder need not exist yet */
  constructor(folder: string, index: string) {
    this.root = resolve(folder)
    this.#index = index
  }

  /** Like `list`, but waits for the first build if it is running. A running build has a folder next to this one. */
  async listWhenBuilt(): Promise<ReadonlySet<string> | undefined> {
    const until = performance.now() + maxBuildMs
    for (;;) {
      const files = await this.list()
      const siblings = files === undefined ? await readdir(dirname(this.root)).catch(() => []) : []
      if (!siblings.some((name) => name.startsWith('.build-')) || performance.now() > until) return files
      await sleep(pollMs)
    }
  }

  /** The paths of the files to serve; undefined if nothing is built. */
  async list(): Promise<ReadonlySet<string> | undefined> {
    const built = await stat(join(this.root, this.#index)).catch(() => undefined)
    if (built === undefined) return undefined
    if (built.mtimeMs !== this.#builtMs) {
      const entries = await readdir(this.root, { recursive: true, withFileTypes: true })
      const names = entries
        .filter((entry) => entry.isFile() && !/^\.|\.(br|gz|map)$/.test(entry.name))
        .map((entry) => relative(this.root, join(entry.parentPath, entry.name)).replaceAll(sep, '/'))
      this.#names = new Set(names)
      this.#builtMs = built.mtimeMs
    }
    return this.#names
  }
}
