import { apiClient } from '@licensing/test-support/api-client'
import { dropStackDatabases, startLocalStack, stillRunning } from '@licensing/test-support/local-stack'
import type { LocalStack } from '@licensing/test-support/local-stack'
import { eventually } from '@licensing/test-support/poll'
import { sharedNatsUrl, sharedPostgresUrl } from '@licensing/test-support/shared-servers'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import type { TemporaryFolder } from '@licensing/test-support/temporary-folder'
import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'

const run = promisify(execFile)

async function givenDataDir(): Promise<string> {
  const folder = await makeTemporaryFolder()
  onTestFinished(() => folder[Symbol.asyncDispose]())
  return join(folder.path, 'data')
}

/** Warnings and errors of the services, but those that every start has. */
async function problemsLogged(dataDir: string): Promise<string[]> {
  const folder = join(dataDir, 'logs')
  const files = await readdir(folder)
  const logs = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')))
  return logs
    .flatMap((text) => text.split('\n'))
    .filter((line) => /"level":"(warn|error|fatal)"/.test(line))
    .filter((line) => !line.includes('"route":"/readyz"') && !line.includes('is in test mode'))
}

test('one command brings up a stack that can be used as it says, and a second one with its data', async () => {
  const dataDir = await givenDataDir()
  await using first = startLocalStack({ dataDir, throughNpm: true })
  const ready = await first.ready()
  expect(ready).toEqual({
    gateway: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/) as string,
    app_id: expect.stringMatching(/^app_[0-9a-z]{26}$/) as string,
    account_id: expect.stringMatching(/^acct_[0-9a-z]{26}$/) as string,
  })
  const api = apiClient(ready.gateway, first.apiKey())
  expect(await api.get('/v1/account')).toMatchObject({ status: 200, body: { id: ready.account_id } })
  for (const path of ['/healthz', '/readyz', '/openapi.json', '/docs', '/portal']) {
    expect(await fetch(`${ready.gateway}${path}`)).toMatchObject({ status: 200 })
  }

  expect(first.stdout).toContain(`${ready.gateway}/portal#key=${first.apiKey()}\n`)

  const lines = first.stdout.split('\n').filter((line) => line.trimStart().startsWith('curl '))
  expect(lines).toHaveLength(3)
  for (const line of lines) {
    const { stdout } = await run('sh', ['-c', line])
    expect(JSON.parse(stdout)).not.toHaveProperty('status', expect.any(Number))
  }
  const plans = await api.get(`/v1/apps/${ready.app_id}/plans`)
  expect(plans.body).toMatchObject({ data: [{ name: 'Pro' }] })

  expect(await problemsLogged(dataDir)).toEqual([])

  // Only npm hears of it.
  const family = await first.family()
  expect(family.length).toBeGreaterThan(8)
  expect(await first.end('SIGTERM')).toBe(0)
  expect(await stillRunning(family)).toEqual([])

  await using second = startLocalStack({ dataDir })
  const again = await second.ready()
  expect(again).toMatchObject({ app_id: ready.app_id, account_id: ready.account_id })
  expect(second.apiKey()).toBe(first.apiKey())
  // What is built already is not built again.
  expect(second.stderr).not.toContain('building the portal')
  expect(await fetch(`${again.gateway}/portal`)).toMatchObject({ status: 200 })
  const after = await apiClient(again.gateway, second.apiKey()).get(`/v1/apps/${ready.app_id}/plans`)
  expect(after.body).toEqual(plans.body)
})

describe('a stack that runs', () => {
  let folder: TemporaryFolder
  let dataDir: string
  let stack: LocalStack
  let second: LocalStack
  let gateway: string
  let app_id: string
  let account_id: string
  beforeAll(async () => {
    folder = await makeTemporaryFolder()
    dataDir = join(folder.path, 'data')
    stack = startLocalStack({ dataDir })
    second = startLocalStack({ dataDir: join(folder.path, 'second') })
    const [ready] = await Promise.all([stack.ready(), second.ready()])
    ;({ gateway, app_id, account_id } = ready)
  })
  afterAll(async () => {
    await Promise.all([stack[Symbol.asyncDispose](), second[Symbol.asyncDispose]()])
    await folder[Symbol.asyncDispose]()
  })

  test('has another beside it that was started with it, each in its folder, and a folder in use is refused', async () => {
    await using other = second
    const theirs = await other.ready()
    expect(theirs.gateway).not.toBe(gateway)
    expect(theirs.account_id).not.toBe(account_id)
    expect(await apiClient(theirs.gateway, stack.apiKey()).get('/v1/account')).toMatchObject({ status: 401 })

    await using third = startLocalStack({ dataDir })
    expect(await third.ended).toBe(1)
    expect(third.stderr).toContain(`another npm start uses ${dataDir}`)
    await using fourth = startLocalStack({
      dataDir: await givenDataDir(),
      environment: { GATEWAY_PORT: new URL(gateway).port },
    })
    expect(await fourth.ended).toBe(1)
    expect(fourth.stderr).toContain(`port ${new URL(gateway).port} is taken`)
    expect(await apiClient(gateway, stack.apiKey()).get('/v1/account')).toMatchObject({ status: 200 })
  })

  test('has another account when an administrator makes it, whose key works', async () => {
    const adminOf = async (dataDir: string) =>
      run('npm', ['run', '--silent', 'admin', '--', 'create-account', '--name', 'Second vendor'], {
        env: { ...process.env, DATA_DIR: dataDir },
        cwd: new URL('../../..', import.meta.url).pathname,
      })
    const unused = await givenDataDir()
    await expect(adminOf(unused)).rejects.toThrow(`no service runs in ${unused}`)

    const { stdout } = await adminOf(dataDir)
    expect(stdout.trim().split('\n')).toHaveLength(1)
    const made = JSON.parse(stdout) as { account_id: string; app_id: string; key: string }
    expect(made.account_id).not.toBe(account_id)
    const api = apiClient(gateway, made.key)
    expect(await api.get('/v1/account')).toMatchObject({ status: 200, body: { name: 'Second vendor' } })
    expect(await api.get(`/v1/apps/${made.app_id}/plans`)).toMatchObject({ status: 200 })
  })

  test('starts services and servers again that crash', async () => {
    const noted: { name: string; pid: number }[] = JSON.parse(
      await readFile(join(dataDir, 'processes.json'), 'utf8'),
    )
    for (const { name, pid } of noted)
      if (['catalog', 'nats', 'postgres'].includes(name)) process.kill(pid, 'SIGKILL')
    for (const name of ['catalog', 'nats', 'postgres']) {
      await eventually(() => expect(stack.stderr).toContain(`${name} ended (SIGKILL)`))
    }
    const api = apiClient(gateway, stack.apiKey())
    await eventually(async () =>
      expect(await api.get(`/v1/apps/${app_id}/plans`)).toMatchObject({ status: 200 }),
    )
    await eventually(async () => expect(await fetch(`${gateway}/readyz`)).toMatchObject({ status: 200 }))
  })
})

test('after kill -9 of the launcher nothing goes on running, and the next start has the data', async () => {
  const dataDir = await givenDataDir()
  await using killed = startLocalStack({ dataDir })
  const { gateway, app_id } = await killed.ready()
  const api = apiClient(gateway, killed.apiKey())
  const plan = await api.post(`/v1/apps/${app_id}/plans`, { body: { name: 'Pro', code: 'pro' } })
  expect(plan.status).toBe(201)
  const family = await killed.family()
  await killed.end('SIGKILL')

  // At once, while the old ones may still be on their way out.
  await using next = startLocalStack({ dataDir })
  const ready = await next.ready()
  expect(await stillRunning(family)).toEqual([])
  const plans = await apiClient(ready.gateway, next.apiKey()).get(`/v1/apps/${app_id}/plans`)
  expect(plans.body).toMatchObject({ data: [{ id: plan.body['id'] }] })
})

test('a signal before it is up stops it as well', async () => {
  const dataDir = await givenDataDir()
  await using stack = startLocalStack({ dataDir })
  await eventually(() => expect(stack.stderr).toContain('postgres is up'), { timeoutMs: 60_000 })
  const family = await stack.family()
  expect(await stack.end('SIGINT')).toBe(0)
  expect(stack.stdout).not.toContain('ready')
  expect(await stillRunning(family)).toEqual([])
})

test('with the operator’s own servers and key, nothing is embedded', async () => {
  const dataDir = await givenDataDir()
  const key = `lsk_${'operators-own-key-'.repeat(3)}`
  onTestFinished(() => dropStackDatabases(dataDir, sharedPostgresUrl()))
  await using stack = startLocalStack({
    dataDir,
    environment: { DATABASE_URL: sharedPostgresUrl(), NATS_URL: sharedNatsUrl(), BOOTSTRAP_API_KEY: key },
  })
  const { gateway } = await stack.ready()
  expect(await apiClient(gateway, key).get('/v1/account')).toMatchObject({ status: 200 })
  const noted: { name: string }[] = JSON.parse(await readFile(join(dataDir, 'processes.json'), 'utf8'))
  expect(noted.map(({ name }) => name).sort()).toEqual([
    'billing',
    'catalog',
    'gateway',
    'licensing',
    'notifier',
    'stripe-simulator',
  ])
})
