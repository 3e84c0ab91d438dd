import { randomUUID } from 'node:crypto'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { LicenceStore } from '../product/store.ts'

/** A store whose answers always take a while. */
export interface FileStore extends LicenceStore {
  read(): Promise<string | null>
  write(text: string): Promise<void>
}

/**
 * A store in one file, readable by its owner only. It is replaced whole, by renaming, so that a crash leaves the old
 * content or the new and never a half. Its folder is made when it is missing.
 *
 * @param path of the file; in a container it should lie on a volume
 * @example const store = fileStore('/var/lib/acme/licence.json')
 */
export function fileStore(path: string): FileStore {
  return {
    async read() {
      try {
        return await readFile(path, 'utf8')
      } catch (error) {
        if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
        throw error
      }
    },
    async write(text) {
      const draft = `${path}.${randomUUID()}`
      await mkdir(dirname(path), { recursive: true })
      try {
        await writeFile(draft, text, { mode: 0o600, flush: true })
        await rename(draft, path)
      } catch (error) {
        await rm(draft, { force: true })
        throw error
      }
    },
  }
}
