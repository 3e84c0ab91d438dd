import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

const notSources = /^(node_modules|dist|screenshots)$|\.test\.tsx?$|\.md$/

/**
 * One for the names and contents of all sources, tests and documents apart.
 *
 * @param paths files and folders of `root`
 */
export async function hashOfSources(root: string, paths: readonly string[]): Promise<string> {
  const hash = createHash('sha256')
  for (const path of paths) await addTo(hash, root, path)
  return hash.digest('hex')
}

async function addTo(hash: ReturnType<typeof createHash>, root: string, path: string): Promise<void> {
  const entries = await readdir(join(root, path), { withFileTypes: true }).catch(() => undefined)
  if (entries === undefined) {
    const content = await readFile(join(root, path))
    hash.update(`${path}\n${content.length}\n`).update(content)
    return
  }
  for (const { name } of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    if (!notSources.test(name)) await addTo(hash, root, join(path, name))
  }
}
