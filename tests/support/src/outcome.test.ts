import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { makeTemporaryFolder } from './temporary-folder.ts'

const half = `
  import { expect, test } from 'vitest'
  test('right', () => {})
  test('wrong', () => expect(1).toBe(2))`
const doesNotLoad = `import './missing.ts'`
const brokenSuite = `
  import { beforeAll, describe, test } from 'vitest'
  describe('suite', () => {
    beforeAll(() => { throw new Error('cannot start') })
    test('does not run', () => {})
  })`
const raises = `
  import { test } from 'vitest'
  test('raises later', () => { void Promise.reject(new Error('nobody awaits this')) })`

test.each([
  ['a failed test', { half }, { passed: 1, failed: 1 }],
  ['a file that does not load', { half, doesNotLoad }, { passed: 1, failed: 2 }],
  ['a suite that cannot start', { brokenSuite }, { passed: 0, failed: 1 }],
  ['an error outside any test', { raises }, { passed: 1, failed: 1 }],
])('%s counts as a failure', async (_, files, expected) => {
  const { counted, slowest } = await run(files)
  expect(counted).toEqual(expected)
  expect(slowest.map((line) => line.split('  ').at(-1) ?? '').toSorted()).toEqual(
    Object.keys(files)
      .map((name) => `${name}.test.ts`)
      .toSorted(),
  )
})

/** Runs these test files in a separate process. */
async function run(files: Record<string, string>): Promise<{ counted: unknown; slowest: string[] }> {
  await using folder = await makeTemporaryFolder()
  await symlink(join(import.meta.dirname, '../node_modules'), join(folder.path, 'node_modules'))
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(folder.path, `${name}.test.ts`), content)
  }
  const program = `
    import { createVitest } from ${JSON.stringify(import.meta.resolve('vitest/node'))}
    import { count, slowestFiles } from ${JSON.stringify(import.meta.resolve('./outcome.ts'))}
    const vitest = await createVitest(${JSON.stringify({ root: folder.path, config: false, watch: false })})
    await vitest.start()
    const result = { counted: count(vitest), slowest: slowestFiles(vitest) }
    await vitest.close()
    console.log('\\n' + JSON.stringify(result))
    process.exit(0)`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: folder.path,
    env: { ...process.env, VITEST: undefined },
  })
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as { counted: unknown; slowest: string[] }
}
