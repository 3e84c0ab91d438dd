import { hashOfSources } from '@licensing/portal/build'
import { execFile } from 'node:child_process'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { publishedPackages, stagePackage } from './packages.ts'
import type { Published } from './packages.ts'

const run = promisify(execFile)
const checkout = fileURLToPath(new URL('../../..', import.meta.url))
const downloads = fileURLToPath(new URL('..', import.meta.url))

const sources = [
  ...publishedPackages.flatMap(({ folder, alsoHas }) =>
    ['src', 'package.json', 'README.md', ...alsoHas].map((part) => `${folder}/${part}`),
  ),
  'packages/csv/src',
  'packages/terminal/src',
  'deploy/downloads/src',
  'LICENSE',
  'pnpm-lock.yaml',
  'tsconfig.base.json',
]

/**
 * Makes `deploy/downloads/dist`, with each package packed as it would be published, unless it is of these sources
 * already. Two at once do no harm: each builds in a folder of its own.
 *
 * @param say receives a line when there is something to build
 * @param signal gives up
 */
export async function ensurePacked(say: (line: string) => void, signal?: AbortSignal): Promise<void> {
  const dist = join(downloads, 'dist')
  const wanted = await hashOfSources(checkout, sources)
  const stamp = await readFile(join(dist, '.built-from'), 'utf8').catch(() => undefined)
  if (stamp === wanted) return
  say('packing the SDK, the command line and the test helper')
  const work = join(downloads, 'node_modules', `.build-${process.pid}`)
  const fresh = join(work, 'dist')
  try {
    await mkdir(fresh, { recursive: true })
    await Promise.all(publishedPackages.map((each) => pack(each, join(work, each.folder), fresh)))
    signal?.throwIfAborted()
    await writeFile(join(fresh, '.built-from'), wanted)
    await rm(dist, { recursive: true, force: true })
    await rename(fresh, dist)
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

async function pack(published: Published, stage: string, target: string): Promise<void> {
  // The folder's name is the one that npm expects inside.
  await stagePackage(published, checkout, join(stage, 'package'))
  await run('tar', ['-czf', join(target, `licensing-${published.folder}.tgz`), '-C', stage, 'package'])
}
