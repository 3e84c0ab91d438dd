import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { makeTemporaryFolder } from './temporary-folder.ts'

/** Each has one failure; two also have a test that passes. */
const files = {
  failedTest: `
    import { expect, test } from 'vitest'
    test('right', () => {})
    test('wrong', () => expect(1).toBe(2))`,
  doesNotLoad: `import './missing.ts'`,
  brokenSuite: `
    import { beforeAll, describe, test } from 'vitest'
    describe('suite', () => {
      beforeAll(() => { throw new Error('cannot start') })
      test('does not run', () => {})
    })`,
  raisesOutsideOfTests: `
    import { test } from 'vitest'
    test('raises later', () => { void Promise.reject(new Error('nobody awaits this')) })`,
}

test('a failed test, a file that does not load, a suite that cannot start and an error outside of tests each count as a failure', async () => {
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
    console.log('\\n' + JSON.stringify({ ...count(vitest), slowest: slowestFiles(vitest) }))
    await vitest.close()
    process.exit(0)`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: folder.path,
    env: { ...process.env, VITEST: undefined },
  })
  const lines = stdout.split('\n').filter((line) => line.startsWith('{'))
  const { passed, failed, slowest } = JSON.parse(lines.at(-1)!) as Record<'passed' | 'failed', number> & {
    slowest: string[]
  }
  expect({ passed, failed }).toEqual({ passed: 2, failed: 4 })
  expect(slowest.map((line) => line.split('  ').at(-1) ?? '').toSorted()).toEqual(
    Object.keys(files)
      .map((name) => `${name}.test.ts`)
      .toSorted(),
  )
})
