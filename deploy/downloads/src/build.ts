import { buildOnce, checkout } from '@licensing/builds/build-once'
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { publishedPackages, stagePackage } from './packages.ts'
import type { Published } from './packages.ts'

const run = promisify(execFile)

/** Files and folders of the checkout that the packages are made from. */
export const sources = [
  ...publishedPackages.flatMap(({ folder, alsoHas }) =>
    ['src', 'package.json', 'README.md', ...alsoHas].map((part) => `${folder}/${part}`),
  ),
  'packages/builds/src',
  'packages/csv/src',
  'packages/formats/src',
  'packages/money/src',
  'packages/terminal/src',
  'deploy/downloads/src',
  'LICENSE',
  'pnpm-lock.yaml',
  'tsconfig.base.json',
]

/**
 * Builds `deploy/downloads/dist`, with each package packed as it would be published, unless it was built from the same
 * sources.
 *
 * @param say receives a line if there is something to build
 * @param signal aborts the build
 */
export async function ensurePacked(say: (line: string) => void, signal?: AbortSignal): Promise<void> {
  await buildOnce(
    {
      dist: fileURLToPath(new URL('../dist', import.meta.url)),
      sources,
      announcement: 'packing the SDK, the command line and the test helper',
      make: async (fresh, work) => {
        const versions = await Promise.all(
          publishedPackages.map((each) => pack(each, join(work, each.name), fresh)),
        )
        signal?.throwIfAborted()
        await writeFile(join(fresh, 'versions.json'), JSON.stringify(Object.fromEntries(versions)))
      },
    },
    say,
  )
}

/** @returns the name of the archive, and the version of the package */
async function pack(published: Published, stage: string, target: string): Promise<[string, string]> {
  // npm expects a folder `package` in the archive.
  const version = await stagePackage(published, checkout, join(stage, 'package'))
  const archive = `licensing-${published.name}.tgz`
  await run('tar', ['-czf', join(target, archive), '-C', stage, 'package'])
  return [archive, version]
}
