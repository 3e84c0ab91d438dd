import { newId } from '@licensing/database/ids'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { keysOf, startProducts } from '../../test/products.ts'
import type { ProductsHarness } from '../../test/products.ts'

let harness: ProductsHarness
beforeAll(async () => {
  harness = await startProducts()
  await keysOf(harness.products, harness.applicationId)
})
afterAll(() => harness[Symbol.asyncDispose]())

const program = new URL('./rotate-signing-keys.ts', import.meta.url).pathname

interface Ended {
  code: number
  stdout: string
  stderr: string
}

function run(args: string[], changes: Record<string, string> = {}): Promise<Ended> {
  const { host, port, database, user, pass } = harness.sql.options
  const password = typeof pass === 'string' ? `:${encodeURIComponent(pass)}` : ''
  const env = {
    DATABASE_URL: `postgres://${user}${password}@${host[0]}:${port[0]}/${database}`,
    ENCRYPTION_KEY: harness.settings.encryptionKey,
    ...changes,
  }
  return new Promise((resolve) => {
    execFile(process.execPath, [program, ...args], { env }, (error, stdout, stderr) => {
      resolve({ code: error ? Number(error.code) : 0, stdout, stderr })
    })
  })
}

async function keysStored(applicationId: string): Promise<number> {
  const rows = await harness.sql`select kid from signing_keys where application_id = ${applicationId}`
  return rows.length
}

test('it rotates the key of one application, and publishes the new key first', async () => {
  const ended = await run(['--app', harness.applicationId])
  expect(ended).toEqual({ code: 0, stdout: '{"rotated":1,"signs_in_seconds":120}\n', stderr: '' })
  expect(await keysStored(harness.applicationId)).toBe(2)
})

test('it rotates the keys of all applications, immediately if that is requested', async () => {
  const another = newId('app')
  await keysOf(harness.products, another)
  const before = await keysStored(harness.applicationId)
  const { code, stdout } = await run(['--all', '--lead-seconds', '0'])
  expect({ code, stdout }).toEqual({ code: 0, stdout: '{"rotated":2,"signs_in_seconds":0}\n' })
  expect(await keysStored(another)).toBe(2)
  expect(await keysStored(harness.applicationId)).toBe(before + 1)
})

test('after a leak the application has only the new key', async () => {
  const { stdout } = await run(['--app', harness.applicationId, '--leaked'])
  expect(JSON.parse(stdout)).toEqual({ rotated: 1, signs_in_seconds: 0 })
  expect(await keysStored(harness.applicationId)).toBe(1)
})

test('it encrypts the private keys with a new encryption key', async () => {
  const next = randomBytes(32).toString('base64url')
  const env = { ENCRYPTION_KEY: `${next},${harness.settings.encryptionKey}` }
  const first = JSON.parse((await run(['--re-encrypt'], env)).stdout) as { re_encrypted: number }
  expect(first.re_encrypted).toBeGreaterThan(0)
  const again = await run(['--re-encrypt'], { ENCRYPTION_KEY: next })
  expect(JSON.parse(again.stdout)).toEqual({ re_encrypted: 0 })
  const other = await harness.otherProducts({ encryptionKey: next })
  await keysOf(other, harness.applicationId)
})

test.each([
  ['nothing', []],
  ['--help', ['--help']],
])('with %s it prints its help', async (_what, args) => {
  const { code, stdout, stderr } = await run(args)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  for (const option of ['--app', '--all', '--lead-seconds', '--leaked', '--re-encrypt', 'ENCRYPTION_KEY']) {
    expect(stdout).toContain(option)
  }
})

test.each([
  ['two jobs', ['--all', '--re-encrypt']],
  ['no job', ['--leaked']],
  ['an unknown option', ['--everything']],
  ['a text that is not the id of an application', ['--app', 'app_1']],
  ['a text that is not a number', ['--all', '--lead-seconds', 'soon']],
])('with %s it says what is wrong and exits with 2', async (_what, args) => {
  const { code, stdout, stderr } = await run(args)
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toMatch(/^rotate-signing-keys: .+\n\nrotate-signing-keys: rotates the keys/)
})

test('it exits with 2 if its environment is missing and with 1 if it fails, and prints no secret', async () => {
  expect(await run(['--all'], { DATABASE_URL: '' })).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('DATABASE_URL: is missing') as string,
  })
  const secret = 'not-a-key-at-all'
  const refused = await run(['--all'], { ENCRYPTION_KEY: secret })
  expect(refused.code).toBe(2)
  expect(refused.stderr).not.toContain(secret)
  expect(await run(['--app', newId('app')])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('has no signing key yet') as string,
  })
  const unreachable = await run(['--all'], { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' })
  expect(unreachable).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('cannot be reached') as string,
  })
})
