import { execFile, execFileSync } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'

const original = fileURLToPath(new URL('../../..', import.meta.url))
const folderName = 'Büro mit Platz & 100 %'

let parent: string
let checkout: string

/** Copies the checkout. The packages of others stay where they are, and those of this repository are linked within the copy. */
async function copyCheckout(): Promise<void> {
  const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: original,
    encoding: 'utf8',
  })
  const files = listed.split('\0').filter((file) => file !== '')
  for (const folder of new Set(files.map((file) => dirname(file))))
    await mkdir(join(checkout, folder), { recursive: true })
  const options = { verbatimSymlinks: true, force: true, errorOnExist: false }
  await Promise.all(
    files.map((file) => cp(join(original, file), join(checkout, file), options).catch(ignoreMissing)),
  )
  const manifests = files.filter((file) => /(^|\/)package\.json$/.test(file)).map((file) => dirname(file))
  for (const folder of manifests) {
    const modules = join(folder, 'node_modules')
    const isOwn = (file: string) => !/node_modules[\\/]\.(pnpm|cache)$/.test(file)
    await cp(join(original, modules), join(checkout, modules), {
      ...options,
      recursive: true,
      filter: isOwn,
    }).catch(ignoreMissing)
  }
  await symlink(join(original, 'node_modules/.pnpm'), join(checkout, 'node_modules/.pnpm'))
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}

beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'licensing-folder-'))
  checkout = join(parent, folderName)
  await copyCheckout()
}, 60_000)

afterAll(() => rm(parent, { recursive: true, force: true }))

/** Runs a command in the copy. @returns all that it prints */
async function run(command: string, ...args: string[]): Promise<string> {
  const env = { PATH: process.env['PATH'], HOME: parent, GATEWAY_PORT: '65536' }
  const { stdout, stderr } = await promisify(execFile)(command, args, { cwd: checkout, env }).catch(
    (failed: { stdout: string; stderr: string }) => failed,
  )
  return stdout + stderr
}

test('npm start, npm run admin and npm run cli work in a folder whose name has blanks, umlauts and special characters', async () => {
  expect(await run('npm', 'start', '--silent')).toContain('GATEWAY_PORT must be a number')
  expect(await run('npm', 'run', '--silent', 'admin', '--', 'create-account', '--name', 'x')).toBe(
    `no service runs in ${join(checkout, '.data')}: run npm start first, or set DATA_DIR to its data folder\n`,
  )
  expect(await run('npm', 'run', '--silent', 'cli', '--', '--version')).toMatch(/\d+\.\d+\.\d+/)
  expect(await readdir(parent)).toEqual(expect.not.arrayContaining([expect.stringContaining('%C3')]))
})

test('each service finds its migrations there, and the command of operators its program', async () => {
  const modules = ['catalog', 'licensing', 'billing', 'notifier'].map(
    (service) => pathToFileURL(join(checkout, `services/${service}/src/tables.ts`)).href,
  )
  const script = `
    for (const url of ${JSON.stringify(modules)})
      for (const list of Object.values(await import(url)))
        for (const { path } of list) if (path) console.log(path, (await import('node:fs')).existsSync(path))`
  const found = (await run(process.execPath, '--input-type=module', '-e', script)).trim().split('\n')
  expect(found.length).toBeGreaterThan(10)
  expect(found.filter((line) => !line.startsWith(`${checkout}/`) || !line.endsWith(' true'))).toEqual([])
  const admin = join(checkout, 'deploy/admin/src/licensing-admin.ts')
  expect(await run(process.execPath, admin, '--help')).toContain('licensing-admin')
})
