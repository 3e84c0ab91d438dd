import { execFile } from 'node:child_process'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { compressFiles } from './compress-files.ts'
import { hashOfSources } from './source-hash.ts'

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
