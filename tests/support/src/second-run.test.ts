import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import type { Outcome } from './second-run.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

const failsAtFirst = `
  import { existsSync, writeFileSync } from 'node:fs'
  import { expect, test } from 'vitest'
  test('sound', () => {})
  test('busy', () => {
    // It is there from the setup of the run to its end.
    expect(existsSync('server')).toBe(true)
    const ran = existsSync('ran')
    writeFileSync('ran', '')
    expect(ran).toBe(true)
  })`
const setup = `
  import { rmSync, writeFileSync } from 'node:fs'
  export function setup() {
    writeFileSync('server', '')
    return () => rmSync('server')
  }`
const fails = `import { expect, test } from 'vitest'; test('wrong', () => expect(1).toBe(2))`
const five = Object.fromEntries(Array.from({ length: 5 }, (_, at) => [`fails${at}`, fails]))
const doesNotLoad = `import './missing.ts'`
const raises = `
  import { test } from 'vitest'
  test('raises later', () => { void Promise.reject(new Error('nobody awaits this')) })`

test('what passes alone is flaky and has passed; what fails twice or does not load has failed', async () => {
  expect(await run({ failsAtFirst, fails, doesNotLoad })).toEqual({
    passed: 2,
    failed: 2,
    flaky: ['failsAtFirst.test.ts > busy'],
  })
})

test('an error outside of any test is not forgiven', async () => {
  expect(await run({ raises, failsAtFirst })).toMatchObject({ failed: 2, flaky: [] })
})

test('where more than five files fail nothing runs again', async () => {
  const outcome = await run({ failsAtFirst, ...five })
  expect(outcome).toEqual({ passed: 1, failed: 6, flaky: [] })
})

/** Runs these files, by name, in a process of its own. */
async function run(files: Record<string, string>): Promise<Outcome> {
  await using folder = await makeTemporaryFolder()
  await symlink(join(import.meta.dirname, '../node_modules'), join(folder.path, 'node_modules'))
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(folder.path, `${name}.test.ts`), content)
  }
  await writeFile(join(folder.path, 'setup.ts'), setup)
  const options = { root: folder.path, config: false, watch: false, globalSetup: ['setup.ts'] }
  const program = `
    import { createVitest } from ${JSON.stringify(import.meta.resolve('vitest/node'))}
    import { runTests } from ${JSON.stringify(import.meta.resolve('./second-run.ts'))}
    const vitest = await createVitest(${JSON.stringify(options)})
    const outcome = await runTests(vitest, [])
    await vitest.close()
    console.log('\\n' + JSON.stringify(outcome))
    process.exit(0)`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: folder.path,
    env: { ...process.env, VITEST: undefined },
  })
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Outcome
}
