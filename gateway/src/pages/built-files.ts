import { readdir, stat } from 'node:fs/promises'
import { join, relative, resolve, sep } from 'node:path'

/** The files of a built folder, read again after each build. */
export class BuiltFiles {
  readonly root: string
  readonly #index: string
  #builtMs = 0
  #names: ReadonlySet<string> = new Set()

  /** @param index a page that each build has; the folder need not be there yet */
  constructor(folder: string, index: string) {
    this.root = resolve(folder)
    this.#index = index
  }

  /** Their paths, without those that are not to be served; undefined if nothing is built. */
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
