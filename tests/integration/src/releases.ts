import { CHECKOUT } from '@licensing/local-servers/services'
import { makeBundles } from '@licensing/test-support/bundles'
import type { TemporaryFolder } from '@licensing/test-support/temporary-folder'
import { execFile } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const components = ['gateway', 'catalog', 'licensing', 'billing', 'notifier']

/** The release to upgrade from: UPGRADE_FROM (a commit or tag), else the latest tag `v…`; undefined if there is none. */
export async function lastRelease(): Promise<string | undefined> {
  const wanted = process.env['UPGRADE_FROM']
  if (wanted) return wanted
  const tags = await run('git', ['tag', '--list', 'v*', '--sort=-version:refname'], { cwd: CHECKOUT }).catch(
    () => undefined,
  )
  return tags?.stdout.split('\n')[0] || undefined
}

/**
 * Builds the release of a commit, from its sources, lock file and Dockerfile.
 *
 * @returns the release for `startService`: a folder of bundles, or with `images` a tag
 */
export async function buildRelease(
  commit: string,
  folder: TemporaryFolder,
  images: boolean,
): Promise<string> {
  const source = join(folder.path, 'source')
  await mkdir(source)
  const archive = join(folder.path, 'source.tar')
  await run('git', ['archive', '--output', archive, commit], { cwd: CHECKOUT })
  await run('tar', ['-xf', archive, '-C', source])
  if (images) {
    for (const target of components) await buildImage(source, target, 'earlier')
    return 'earlier'
  }
  const install = [join(CHECKOUT, 'tools/pnpm/pnpm.mjs'), 'install', '--frozen-lockfile', '--prefer-offline']
  await run(process.execPath, [...install, '--prod', '--filter', '@licensing/images...'], { cwd: source })
  await run(process.execPath, ['deploy/images/src/bundle.ts'], { cwd: source })
  return join(source, 'deploy/images/dist')
}

/** Builds the release of this checkout, including uncommitted changes. */
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
