import { CHECKOUT } from '@licensing/local-servers/services'
import { execFile } from 'node:child_process'
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { makeTemporaryFolder } from './temporary-folder.ts'

const run = promisify(execFile)
const read = (file: string) => readFile(join(CHECKOUT, file), 'utf8')
const json = async <Shape>(file: string) => JSON.parse(await read(file)) as Shape

interface Lock {
  packages: Record<string, { version?: string; integrity?: string; resolved?: string }>
}

test('pnpm has the same version everywhere, and a hash for each platform', async () => {
  const { packageManager } = await json<{ packageManager: string }>('package.json')
  const [, version] = /^pnpm@(\d+\.\d+\.\d+)\+sha512\.[0-9a-f]{128}$/.exec(packageManager) ?? []
  expect(version, packageManager).toBeDefined()
  const { optionalDependencies } = await json<{ optionalDependencies: Record<string, string> }>(
    'tools/pnpm/package.json',
  )
  expect([...new Set(Object.values(optionalDependencies))]).toEqual([version])
  const { packages } = await json<Lock>('tools/pnpm/package-lock.json')
  const { '': _root, ...programs } = packages
  expect(Object.keys(programs).map((name) => name.replace('node_modules/', ''))).toEqual(
    Object.keys(optionalDependencies),
  )
  for (const [name, { version: locked, integrity, resolved }] of Object.entries(programs)) {
    expect([locked, resolved], name).toEqual([version, undefined])
    expect(integrity, name).toMatch(/^sha512-[A-Za-z0-9+/]{86}==$/)
  }
})

test('scripts, images and workflows run pnpm through the program that checks its hash', async () => {
  const { stdout } = await run('git', ['ls-files', '-z'], { cwd: CHECKOUT, maxBuffer: 16 * 1024 * 1024 })
  const files = stdout
    .split('\0')
    .filter((file) => /(^|\/)(package\.json|Dockerfile|[^/.]+|[^/]+\.(m?[jt]s|sh|ya?ml))$/.test(file))
    .filter((file) => file !== 'tests/support/src/pinned-pnpm.test.ts' && file !== 'pnpm-lock.yaml')
  const fetching =
    /(npx|npm (exec|i|install|add)|corepack|pnpm dlx)[^\n]*(\bpnpm\b|packageManager)|pnpm\/action-setup|get\.pnpm\.io/
  const texts = await Promise.all(
    files.map(async (file) => [file, await read(file).catch(() => '')] as const),
  )
  const found = texts.filter(([, text]) => fetching.test(text)).map(([file]) => file)
  expect(found).toEqual([])
  const through = texts.filter(([, text]) => text.includes('tools/pnpm/pnpm.mjs')).map(([file]) => file)
  expect(through).toEqual(
    expect.arrayContaining([
      '.github/publish',
      'deploy/development/Dockerfile',
      'deploy/images/Dockerfile',
      'deploy/local/src/install.mjs',
      'package.json',
    ]),
  )
})

test('pnpm with another hash is not run', async () => {
  await using folder = await makeTemporaryFolder()
  for (const file of ['package.json', 'pnpm.mjs']) {
    await copyFile(join(CHECKOUT, 'tools/pnpm', file), join(folder.path, file))
  }
  const lock = await read('tools/pnpm/package-lock.json')
  const other = lock.replaceAll(/"sha512-[^"]+"/g, `"sha512-${'A'.repeat(86)}=="`)
  await writeFile(join(folder.path, 'package-lock.json'), other)
  await expect(run(process.execPath, [join(folder.path, 'pnpm.mjs'), '--version'])).rejects.toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(/could not be fetched|with a hash that is in/),
  })
})
