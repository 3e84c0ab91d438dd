import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'

/** A checkout without dependencies, with a fake pnpm that records its arguments and runs `script`. */
async function givenCheckout(script: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'licensing-local-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  await mkdir(join(folder, 'deploy/local/src'), { recursive: true })
  await copyFile(new URL('install.mjs', import.meta.url), join(folder, 'deploy/local/src/install.mjs'))
  await writeFile(join(folder, 'pnpm-lock.yaml'), 'locked: 1\n')
  await givenPnpm(folder, script)
  return folder
}

async function givenPnpm(folder: string, script: string): Promise<void> {
  await mkdir(join(folder, 'tools/pnpm'), { recursive: true })
  const shell = `echo "$@" >> "${folder}/calls"\n${script}\n`
  const program = `import { spawnSync } from 'node:child_process'
const args = ['-c', ${JSON.stringify(shell)}, 'pnpm', ...process.argv.slice(2)]
process.exitCode = spawnSync('/bin/sh', args, { stdio: 'inherit' }).status`
  await writeFile(join(folder, 'tools/pnpm/pnpm.mjs'), program)
}

const INSTALLS = `sleep 0.3
mkdir -p node_modules/.pnpm node_modules/.bin
cp pnpm-lock.yaml node_modules/.pnpm/lock.yaml
touch node_modules/.bin/node`

async function install(folder: string): Promise<{ code: number; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, ['deploy/local/src/install.mjs'], { cwd: folder })
  const code = new Promise<number>((resolve) => child.once('close', resolve))
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
  return { code: await code, stdout, stderr }
}

const calls = async (folder: string) => (await readFile(join(folder, 'calls'), 'utf8')).trim().split('\n')

test('a fresh checkout is installed by the pinned pnpm, exactly as locked, and standard output stays clean', async () => {
  const folder = await givenCheckout(INSTALLS)
  expect(await install(folder)).toMatchObject({ code: 0, stdout: '' })
  expect(await calls(folder)).toEqual(['install --frozen-lockfile --reporter=append-only'])
})

test('an installation that prints nothing for seconds prints a line at least every second', async () => {
  const folder = await givenCheckout(`sleep 2\n${INSTALLS}`)
  const { code, stdout, stderr } = await install(folder)
  expect({ code, stdout }).toEqual({ code: 0, stdout: '' })
  const lines = stderr.match(/^still installing, \d+ s$/gm) ?? []
  expect(lines.length).toBeGreaterThanOrEqual(2)
})

test('dependencies are not installed again until the lock file changes', async () => {
  const folder = await givenCheckout(INSTALLS)
  await install(folder)
  expect(await install(folder)).toEqual({ code: 0, stdout: '', stderr: '' })
  expect(await calls(folder)).toHaveLength(1)
  await writeFile(join(folder, 'pnpm-lock.yaml'), 'locked: 2\n')
  await install(folder)
  expect(await calls(folder)).toHaveLength(2)
})

test('two concurrent runs install once', async () => {
  const folder = await givenCheckout(INSTALLS)
  const both = await Promise.all([install(folder), install(folder)])
  expect(both.map(({ code }) => code)).toEqual([0, 0])
  expect(await calls(folder)).toHaveLength(1)
})

test('a failure says what to do, with the output of the installation, and the next try works', async () => {
  const folder = await givenCheckout('echo out; echo err >&2; exit 7')
  const failed = await install(folder)
  expect(failed).toMatchObject({ code: 1, stdout: '' })
  expect(failed.stderr).toMatch(/^out$/m)
  expect(failed.stderr).toMatch(/^err$/m)
  expect(failed.stderr).toMatch(
    /could not be installed \(it ended with 7\)[^]*node tools\/pnpm\/pnpm.mjs install/,
  )
  await givenPnpm(folder, INSTALLS)
  expect(await install(folder)).toMatchObject({ code: 0 })
})

test('the lock of an installer that was killed is taken over', async () => {
  const folder = await givenCheckout(INSTALLS)
  await mkdir(join(folder, 'node_modules/.installing'), { recursive: true })
  const gone = spawn(process.execPath, ['-e', ''])
  await new Promise((resolve) => gone.once('close', resolve))
  await writeFile(join(folder, 'node_modules/.installing/pid'), String(gone.pid))
  expect(await install(folder)).toMatchObject({ code: 0 })
})

test('while another process installs, a line about it is printed every ten seconds', async () => {
  const folder = await givenCheckout(INSTALLS)
  await mkdir(join(folder, 'node_modules/.installing'), { recursive: true })
  const other = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
  await writeFile(join(folder, 'node_modules/.installing/pid'), String(other.pid))
  const env = { PATH: `${join(folder, 'bin')}:${process.env['PATH']}` }
  const child = spawn(process.execPath, ['deploy/local/src/install.mjs'], { cwd: folder, env })
  const [line] = (await once(child.stderr, 'data')) as [Buffer]
  expect(line.toString()).toBe(`waiting for process ${other.pid}, which installs the dependencies\n`)
  other.kill('SIGKILL')
  expect(await once(child, 'close')).toEqual([0, null])
})
