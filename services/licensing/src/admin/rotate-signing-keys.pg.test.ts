import { fullTest } from '@licensing/test-support/drawn'
import { newId } from '@licensing/database/ids'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { startHarness, forFile } from '../../test/harness.ts'
import { keysOf } from '../../test/products.ts'

const harness = await forFile(startHarness)
await keysOf(harness.products, harness.applicationId)

const program = fileURLToPath(new URL('./rotate-signing-keys.ts', import.meta.url))

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
  const other = (await harness.replica({ encryptionKey: next })).products
  await keysOf(other, harness.applicationId)
})

test('with --help, or without arguments, it prints its help', async () => {
  for (const { code, stdout, stderr } of await Promise.all([run([]), run(['--help'])])) {
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const option of ['--app', '--all', '--lead-seconds', '--leaked', '--re-encrypt', 'ENCRYPTION_KEY']) {
      expect(stdout).toContain(option)
    }
  }
})

fullTest('with wrong arguments it says what is wrong and exits with 2', async () => {
  const wrong = [
    ['--all', '--re-encrypt'],
    ['--leaked'],
    ['--everything'],
    ['--app', 'app_1'],
    ['--all', '--lead-seconds', 'soon'],
  ]
  for (const { code, stdout, stderr } of await Promise.all(wrong.map((args) => run(args)))) {
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^rotate-signing-keys: .+\n\nrotate-signing-keys: rotates the keys/)
  }
})

test('it exits with 2 if its environment is wrong and with 1 if it fails, and prints no secret', async () => {
  const secret = 'not-a-key-at-all'
  const [missing, refused, unknown, unreachable] = await Promise.all([
    run(['--all'], { DATABASE_URL: '' }),
    run(['--all'], { ENCRYPTION_KEY: secret }),
    run(['--app', newId('app')]),
    run(['--all'], { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' }),
  ])
  const codes = [missing, refused, unknown, unreachable].map(({ code }) => code)
  expect(codes).toEqual([2, 2, 1, 1])
  expect(missing.stderr).toContain('DATABASE_URL: is missing')
  expect(refused.stderr).not.toContain(secret)
  expect(unknown.stderr).toContain('has no signing key yet')
  expect(unreachable.stderr).toContain('cannot be reached')
})
