import { execFile } from 'node:child_process'
import { mkdir, readFile, rename, rm, writeFile, readdir } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { createHash } from 'node:crypto'

const checkout = fileURLToPath(new URL('../..', import.meta.url))
const portal = join(checkout, 'portal')
// What goes into the build, tests apart. The lock file stands for the libraries.
const sources = [
  'portal',
  'sdk/src',
  'packages/csv/src',
  'packages/money/src',
  'pnpm-lock.yaml',
  'tsconfig.base.json',
]

/**
 * Makes `portal/dist`, with a compressed copy of each file beside it, unless it is of these sources already. Two at
 * once do no harm: each builds in a folder of its own.
 *
 * @param say receives a line when there is something to build
 * @param signal gives up
 */
export async function ensureBuilt(say: (line: string) => void, signal?: AbortSignal): Promise<void> {
  const dist = join(portal, 'dist')
  const wanted = await hashOfSources(checkout, sources)
  const stamp = await readFile(join(dist, '.built-from'), 'utf8').catch(() => undefined)
  if (stamp === wanted) return
  say('building the portal')
  const fresh = join(portal, 'node_modules', `.build-${process.pid}`)
  await runVite(fresh, signal)
  await compressFiles(fresh)
  await writeFile(join(fresh, '.built-from'), wanted)
  await rm(dist, { recursive: true, force: true })
  await rename(fresh, dist)
}

async function runVite(outDir: string, signal: AbortSignal | undefined): Promise<void> {
  const vite = join(
    dirname(createRequire(join(portal, 'package.json')).resolve('vite/package.json')),
    'bin/vite.js',
  )
  const args = [vite, 'build', '--outDir', outDir, '--emptyOutDir', '--logLevel', 'warn']
  await mkdir(outDir, { recursive: true })
  try {
    // A test runner's own mode would build the libraries' development versions.
    const env = { ...process.env, NODE_ENV: 'production' }
    await promisify(execFile)(process.execPath, args, { cwd: portal, env, ...(signal && { signal }) })
  } catch (error) {
    await rm(outDir, { recursive: true, force: true })
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    throw new Error(`vite build failed\n${stdout}${stderr}`.trim(), { cause: error })
  }
}

const worthIt = /\.(html|js|css|svg|json|webmanifest)$/
const leastBytes = 512

/** Puts a `.br` and a `.gz` beside each file of a build that shrinks; the gateway sends them as they are. */
async function compressFiles(folder: string): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter(
    (entry) => entry.isFile() && worthIt.test(entry.name) && !entry.name.startsWith('.'),
  )
  await Promise.all(files.map((entry) => compressFile(join(entry.parentPath, entry.name))))
}

async function compressFile(file: string): Promise<void> {
  const bytes = await readFile(file)
  if (bytes.length < leastBytes) return
  const quality = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY }
  await writeFile(`${file}.br`, await promisify(brotliCompress)(bytes, { params: quality }))
  await writeFile(`${file}.gz`, await promisify(gzip)(bytes, { level: constants.Z_BEST_COMPRESSION }))
}

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
