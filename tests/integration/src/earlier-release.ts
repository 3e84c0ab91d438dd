import { CHECKOUT } from '@licensing/local-servers/services'
import { makeBundles } from '@licensing/test-support/bundles'
import type { TemporaryFolder } from '@licensing/test-support/temporary-folder'
import { execFile } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const components = ['gateway', 'catalog', 'licensing', 'billing', 'notifier']

/**
 * The commit to upgrade from: UPGRADE_FROM, else the one before this. Undefined outside of a clone, and before the first
 * release, because only releases promise that their replicas work beside those of the next commit.
 */
export async function earlierCommit(): Promise<string | undefined> {
  const wanted = process.env['UPGRADE_FROM']
  try {
    if (wanted === undefined) await run('git', ['describe', '--tags', '--match', 'v*'], { cwd: CHECKOUT })
    const commit = `${wanted ?? 'HEAD~1'}^{commit}`
    const { stdout } = await run('git', ['rev-parse', '--verify', commit], { cwd: CHECKOUT })
    return stdout.trim()
  } catch {
    return undefined
  }
}

/**
 * Builds what was there at a commit, from its own sources, lock file and Dockerfile.
 *
 * @returns the release as `startService` takes it: a folder of bundles, or with `images` a tag
 */
export async function buildRelease(
  commit: string,
  folder: TemporaryFolder,
  images: boolean,
): Promise<string> {
  const source = join(folder.path, commit)
  await mkdir(source)
  const archive = join(folder.path, `${commit}.tar`)
  await run('git', ['archive', '--output', archive, commit], { cwd: CHECKOUT })
  await run('tar', ['-xf', archive, '-C', source])
  if (images) {
    const tag = commit.slice(0, 12)
    for (const target of components) await buildImage(source, target, tag)
    return tag
  }
  const install = [join(CHECKOUT, 'tools/pnpm/pnpm.mjs'), 'install', '--frozen-lockfile', '--prefer-offline']
  await run(process.execPath, [...install, '--prod', '--filter', '@licensing/images...'], { cwd: source })
  await run(process.execPath, ['deploy/images/src/bundle.ts'], { cwd: source })
  return join(source, 'deploy/images/dist')
}

/** The release of this checkout as it is, with changes that are not committed. */
export async function buildThisRelease(images: boolean): Promise<string> {
  const given = process.env['TEST_IMAGES']
  if (images) {
    if (given) return given
    for (const target of components) await buildImage(CHECKOUT, target, 'test')
    return 'test'
  }
  const made = process.env['TEST_RELEASE']
  if (made) return made
  const folder = join(CHECKOUT, 'deploy/images/dist')
  await makeBundles(folder)
  return folder
}

async function buildImage(context: string, target: string, tag: string): Promise<void> {
  const name = `licensing/${target}:${tag}`
  await run('docker', ['build', '-f', 'deploy/images/Dockerfile', '--target', target, '-t', name, '.'], {
    cwd: context,
    env: { ...process.env, DOCKER_BUILDKIT: '1' },
    maxBuffer: 64 * 1024 * 1024,
  })
}
