import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'

export const checkout = fileURLToPath(new URL('../../..', import.meta.url))

export interface Build {
  /** The built folder. */
  readonly dist: string
  /** Files and folders of the checkout that it is built from, including the lock file but not `dist`. */
  readonly sources: readonly string[]
  /** The line that is printed before it is built. */
  readonly announcement: string
  /** Writes the contents of `dist` to the folder `fresh`, and temporary files to the folder `work`. Both are empty. */
  readonly make: (fresh: string, work: string) => Promise<void>
}

/** Builds a folder, unless it was built from the same sources. Two processes may do this at once. */
export async function buildOnce(
  { dist, sources, announcement, make }: Build,
  say: (line: string) => void,
): Promise<void> {
  const wanted = await hashOfSources(checkout, sources)
  const stamp = await readFile(join(dist, '.built-from'), 'utf8').catch(() => undefined)
  if (stamp === wanted) return
  say(announcement)
  const work = join(dirname(dist), `.build-${process.pid}`)
  const fresh = join(work, 'dist')
  try {
    await mkdir(fresh, { recursive: true })
    await make(fresh, work)
    await writeFile(join(fresh, '.built-from'), wanted)
    await rm(dist, { recursive: true, force: true })
    await rename(fresh, dist)
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

/**
 * Runs a program of a library with the Node of this process.
 *
 * @param signal ends it
 */
export async function runProgram(args: readonly string[], cwd: string, signal?: AbortSignal): Promise<void> {
  try {
    // With the NODE_ENV of a test runner the development versions of the libraries would be built.
    const env = { ...process.env, NODE_ENV: 'production' }
    await promisify(execFile)(process.execPath, args, { cwd, env, ...(signal && { signal }) })
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    throw new Error(`${args.join(' ')} failed\n${stdout}${stderr}`.trim(), { cause: error })
  }
}

const compressible = /\.(html|js|css|svg|json|webmanifest|md|txt)$/
const minBytes = 512

/** Writes a `.br` and a `.gz` of each compressible file of a build; the gateway sends them. */
export async function compressFiles(folder: string): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter(
    (entry) => entry.isFile() && compressible.test(entry.name) && !entry.name.startsWith('.'),
  )
  await Promise.all(files.map((entry) => compressFile(join(entry.parentPath, entry.name))))
}

async function compressFile(file: string): Promise<void> {
  const bytes = await readFile(file)
  if (bytes.length < minBytes) return
  const quality = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY }
  await writeFile(`${file}.br`, await promisify(brotliCompress)(bytes, { params: quality }))
  await writeFile(`${file}.gz`, await promisify(gzip)(bytes, { level: constants.Z_BEST_COMPRESSION }))
}

const notSources = /^(node_modules|dist|screenshots|__pycache__|target|\.build-\d+)$|\.test\.tsx?$/

/**
 * One hash for the names and contents of all sources except tests.
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
