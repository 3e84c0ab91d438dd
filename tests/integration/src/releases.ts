import { CHECKOUT } from '@licensing/local-servers/services'
import { makeBundles } from '@licensing/test-support/bundles'
import type { TemporaryFolder } from '@licensing/test-support/temporary-folder'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const components = ['gateway', 'catalog', 'licensing', 'billing', 'notifier']

/**
 * The commits of the last releases, the latest first: UPGRADE_FROM (a commit or tag), else the tags `v…`, else the commits that
 * added the headings of CHANGELOG.md.
 */
export async function lastReleases(): Promise<{ name: string; commit: string }[]> {
  const wanted = process.env['UPGRADE_FROM']
  if (wanted) return [{ name: wanted, commit: wanted }]
  const git = (...words: string[]) =>
    run('git', words, { cwd: CHECKOUT }).then(
      ({ stdout }) => stdout.split('\n').filter((line) => line !== ''),
      () => [],
    )
  const tags = await git('tag', '--list', 'v*', '--sort=-version:refname')
  if (tags.length > 0) return tags.slice(0, 2).map((tag) => ({ name: tag, commit: tag }))
  const text = await readFile(join(CHECKOUT, 'CHANGELOG.md'), 'utf8')
  const headings = [...text.matchAll(/^## (\d+\.\d+\.\d+)/gm)].map(([heading, name = '']) => ({
    heading,
    name,
  }))
  const found = headings.slice(0, 2).map(async ({ heading, name }) => {
    const added = await git('log', '--format=%H', `-S${heading}`, '--', 'CHANGELOG.md')
    return { name, commit: added.at(-1) ?? '' }
  })
  return (await Promise.all(found)).filter(({ commit }) => commit !== '')
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
  const source = await mkdtemp(join(folder.path, 'source-'))
  const archive = `${source}.tar`
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
