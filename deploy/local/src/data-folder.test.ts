import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { spawn } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { findRunningStack, takeDataFolder } from './data-folder.ts'
import { identityOf } from '@licensing/local-servers/process-table'
import { loadSecrets, writeSecretFile } from '@licensing/local-servers/secrets'

const quietly = () => undefined

async function givenPath(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'licensing-local-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return join(folder, 'data')
}

const stack = {
  pid: 4711,
  gateway: 'http://127.0.0.1:1234',
  accountId: 'acct_1',
  appId: 'app_1',
  databaseUrls: { catalog: 'c', licensing: 'l', billing: 'b', notifier: 'n' },
  natsUrl: 'nats://127.0.0.1:4222',
  grpc: { catalog: 'c:1', licensing: 'l:1', billing: 'b:1', notifier: 'n:1' },
  apiKey: 'lsk_of_the_test',
}

test('a folder in use is refused, and the error names the process; afterwards the folder can be used', async () => {
  const path = await givenPath()
  {
    await using folder = await takeDataFolder(path, quietly)
    await folder.publish(stack)
    await expect(takeDataFolder(path, quietly)).rejects.toThrow(
      /process 4711, http:\/\/127.0.0.1:1234.*DATA_DIR/,
    )
  }
  await using again = await takeDataFolder(path, quietly)
  expect(again.path).toBe(path)
})

test('a running stack is found in its folder, but not after it has ended', async () => {
  const path = await givenPath()
  expect(await findRunningStack(path)).toBeUndefined()
  {
    await using folder = await takeDataFolder(path, quietly)
    expect(await findRunningStack(path)).toBeUndefined()
    await folder.publish(stack)
    expect(await findRunningStack(path)).toEqual(stack)
  }
  expect(await findRunningStack(path)).toBeUndefined()
})

test('processes that a killed launcher left running are stopped, but not an unrelated process with the same number', async () => {
  const path = await givenPath()
  const first = await takeDataFolder(path, quietly)
  const [left, unrelated] = [spawn('sleep', ['60']), spawn('sleep', ['60'])]
  onTestFinished(() => void [left, unrelated].map((child) => child.kill('SIGKILL')))
  await first.note('catalog', left.pid as number)
  const noted: unknown[] = JSON.parse(await readFile(join(path, 'processes.json'), 'utf8'))
  noted.push({ name: 'billing', pid: unrelated.pid, startedAt: 'another time' })
  await first[Symbol.asyncDispose]()
  await writeFile(join(path, 'processes.json'), JSON.stringify(noted))

  const said: string[] = []
  await using next = await takeDataFolder(path, (line) => said.push(line))
  expect(next.path).toBe(path)
  expect(said).toEqual([
    `stopping catalog (process ${left.pid}), left over from an npm start that was killed`,
  ])
  expect(await identityOf(left.pid as number)).toBeUndefined()
  expect(await identityOf(unrelated.pid as number)).toBeDefined()
})

test('secrets are generated once, kept, and readable only by their owner', async () => {
  const path = await givenPath()
  await using _ = await takeDataFolder(path, quietly)
  const secrets = await loadSecrets(path, undefined)
  expect(await loadSecrets(path, undefined)).toEqual(secrets)
  expect((await stat(join(path, 'secrets.json'))).mode & 0o777).toBe(0o600)
  expect(Buffer.from(secrets.encryptionKey, 'base64url')).toHaveLength(32)
  expect(secrets.notifierEncryptionKey).not.toBe(secrets.encryptionKey)
  expect(secrets.bootstrapKey).toMatch(/^lsk_[0-9A-Za-z]{6}_[0-9A-Za-z]{49}$/)
})

test('a folder with one key for licensing and the notifier keeps it for licensing, and the notifier gets its own', async () => {
  const path = await givenPath()
  await using _ = await takeDataFolder(path, quietly)
  const { notifierEncryptionKey: _own, ...former } = await loadSecrets(path, undefined)
  await writeSecretFile(join(path, 'secrets.json'), JSON.stringify(former))
  const { encryptionKey, notifierEncryptionKey } = await loadSecrets(path, undefined)
  expect(encryptionKey).toBe(former.encryptionKey)
  expect(notifierEncryptionKey.split(',')[1]).toBe(former.encryptionKey)
  expect(notifierEncryptionKey.split(',')[0]).not.toBe(former.encryptionKey)
  expect((await loadSecrets(path, undefined)).notifierEncryptionKey).toBe(notifierEncryptionKey)
})

test('a key that the operator sets replaces the generated key, and is kept', async () => {
  const path = await givenPath()
  await using _ = await takeDataFolder(path, quietly)
  const made = await loadSecrets(path, undefined)
  const brought = `lsk_${'k'.repeat(40)}`
  expect(await loadSecrets(path, brought)).toEqual({ ...made, bootstrapKey: brought })
  expect((await loadSecrets(path, undefined)).bootstrapKey).toBe(brought)
})
