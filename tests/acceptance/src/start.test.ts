import { fullTest, isFull } from '@licensing/test-support/drawn'
import { apiClient } from '@licensing/test-support/api-client'
import { dropStackDatabases, startLocalStack, stillRunning } from '@licensing/test-support/local-stack'
import type { LocalStack } from '@licensing/test-support/local-stack'
import { eventually } from '@licensing/test-support/poll'
import { sharedNatsUrl, sharedPostgresUrl } from '@licensing/test-support/shared-servers'
import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { CHECKOUT } from '@licensing/local-servers/services'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { givenFolder } from './vendor.ts'

const run = promisify(execFile)
const demo = fileURLToPath(new URL('../../../deploy/local/src/demo.ts', import.meta.url))

const folder = await givenFolder()
const dataDir = join(folder.path, 'data')
let stack: LocalStack
let ready: Awaited<ReturnType<LocalStack['ready']>>
afterAll(() => stack?.[Symbol.asyncDispose]())

/** Warnings and errors of the services, except the ones that every start logs. */
async function problemsLogged(dataDir: string): Promise<string[]> {
  const folder = join(dataDir, 'logs')
  const files = await readdir(folder)
  const logs = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')))
  return logs
    .flatMap((text) => text.split('\n'))
    .filter((line) => /"level":"(warn|error|fatal)"/.test(line))
    .filter((line) => !line.includes('"route":"/readyz"') && !line.includes('is in test mode'))
}

test('npm start starts a stack that works as printed, and leaves no process running after it is stopped', async () => {
  await using first = startLocalStack({ dataDir, throughNpm: true })
  ready = await first.ready()
  expect(ready).toEqual({
    gateway: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/) as string,
    app_id: expect.stringMatching(/^app_[0-9a-z]{26}$/) as string,
    account_id: expect.stringMatching(/^acct_[0-9a-z]{26}$/) as string,
  })
  const api = apiClient(ready.gateway, first.apiKey())
  const account = { id: ready.account_id, alert_email: 'alerts@localhost', alert_email_confirmed: true }
  expect(await api.get('/v1/account')).toMatchObject({ status: 200, body: account })
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

  // Only npm gets the signal.
  const family = await first.family()
  expect(family.length).toBeGreaterThan(8)
  expect(await first.end('SIGTERM')).toBe(0)
  expect(await stillRunning(family)).toEqual([])
})

test('the next start has the data and builds nothing; another stack uses the operator’s servers and key', async () => {
  const ownDir = join(folder.path, 'own')
  const key = `lsk_${'operators-own-key-'.repeat(3)}`
  onTestFinished(() => dropStackDatabases(ownDir, sharedPostgresUrl()))
  stack = startLocalStack({ dataDir })
  await using other = startLocalStack({
    dataDir: ownDir,
    environment: {
      DATABASE_URL: sharedPostgresUrl(),
      NATS_URL: sharedNatsUrl(),
      BOOTSTRAP_API_KEY: key,
      PROCESSES: 'separate',
    },
  })
  const [next, theirs] = await Promise.all([stack.ready(), other.ready()])
  expect(next).toMatchObject({ app_id: ready.app_id, account_id: ready.account_id })
  expect(stack.stderr).not.toContain('building the portal')
  expect(await fetch(`${next.gateway}/portal`)).toMatchObject({ status: 200 })
  const { body } = await apiClient(next.gateway, stack.apiKey()).get(`/v1/apps/${ready.app_id}/plans`)
  expect(body).toMatchObject({ data: [{ name: 'Pro' }] })
  ready = next

  expect(await apiClient(theirs.gateway, key).get('/v1/account')).toMatchObject({ status: 200 })
  const noted = await notedProcesses(ownDir)
  const names = ['billing', 'catalog', 'gateway', 'licensing', 'notifier', 'stripe-simulator']
  expect(noted.map(({ name }) => name).toSorted()).toEqual(names)
  expect(theirs.gateway).not.toBe(next.gateway)
  expect(theirs.account_id).not.toBe(next.account_id)
  expect(await apiClient(theirs.gateway, stack.apiKey()).get('/v1/account')).toMatchObject({ status: 401 })

  // A service in its own process is restarted when it crashes.
  process.kill(noted.find(({ name }) => name === 'catalog')!.pid, 'SIGKILL')
  await eventually(() => expect(other.stderr).toContain('catalog ended (SIGKILL)'))
  await eventually(async () =>
    expect(await apiClient(theirs.gateway, key).get('/v1/account')).toMatchObject({ status: 200 }),
  )
})

test('a folder or a port in use is refused, and the stack that uses it keeps running', async () => {
  await using sameFolder = startLocalStack({ dataDir })
  await using samePort = startLocalStack({
    dataDir: join(folder.path, 'third'),
    environment: { GATEWAY_PORT: new URL(ready.gateway).port },
  })
  expect(await sameFolder.ended).toBe(1)
  expect(sameFolder.stderr).toContain(`another npm start uses ${dataDir}`)
  expect(await samePort.ended).toBe(1)
  expect(samePort.stderr).toContain(`port ${new URL(ready.gateway).port} is taken`)
  expect(await apiClient(ready.gateway, stack.apiKey()).get('/v1/account')).toMatchObject({ status: 200 })
})

test('an administrator creates another account with a working key', async () => {
  const adminOf = async (dataDir: string) =>
    run('npm', ['run', '--silent', 'admin', '--', 'create-account', '--name', 'Second vendor'], {
      env: { ...process.env, DATA_DIR: dataDir },
      cwd: fileURLToPath(new URL('../../..', import.meta.url)),
    })
  const unused = join(folder.path, 'unused')
  await expect(adminOf(unused)).rejects.toThrow(`no service runs in ${unused}`)

  const { stdout } = await adminOf(dataDir)
  expect(stdout.trim().split('\n')).toHaveLength(1)
  const made = JSON.parse(stdout) as { account_id: string; app_id: string; key: string }
  expect(made.account_id).not.toBe(ready.account_id)
  const api = apiClient(ready.gateway, made.key)
  expect(await api.get('/v1/account')).toMatchObject({ status: 200, body: { name: 'Second vendor' } })
  expect(await api.get(`/v1/apps/${made.app_id}/plans`)).toMatchObject({ status: 200 })
})

test(`npm run demo works against it${isFull ? ', also a second time' : ''}`, async () => {
  for (const _ of isFull ? ['first', 'again'] : ['first']) {
    const output = await runDemo(dataDir)
    expect(output).toContain(`using the service that runs in ${dataDir}`)
    expect(output.match(/⇒ webhook/g)).toHaveLength(7)
    expect(output).not.toContain('signature INVALID')
  }
})

fullTest(
  'a backup of the running stack is restored into another folder, and a start there continues with its data and keys',
  async () => {
    const npm = (name: string, dataDir: string, ...args: string[]) => {
      const env = { ...process.env, DATA_DIR: dataDir }
      return run('npm', ['run', '--silent', name, '--', ...args], { env, cwd: CHECKOUT })
    }
    const [backup, restored] = [join(folder.path, 'backup'), join(folder.path, 'restored')]
    const app = `/v1/apps/${ready.app_id}`
    const api = apiClient(ready.gateway, stack.apiKey())
    const { body: plans } = await api.get<{ data: { id: string }[] }>(`${app}/plans`)
    const issue = (from: typeof api, external_ref: string) =>
      from.post<{ id: string; key: string }>(`${app}/licences`, {
        headers: { 'idempotency-key': external_ref },
        body: { external_ref, plan_id: plans.data[0]!.id },
      })
    const kept = await issue(api, 'before-the-backup')
    await npm('backup', dataDir, backup)
    await issue(api, 'after-the-backup')
    await expect(npm('backup', dataDir, backup)).rejects.toThrow(`${backup} exists: name a new folder`)
    await expect(npm('backup', restored, backup)).rejects.toThrow(`${restored} has no data of npm start`)
    await expect(npm('restore', dataDir, backup)).rejects.toThrow(`${dataDir} has data`)
    await expect(npm('restore', restored, dataDir)).rejects.toThrow('has no backup.json')
    await npm('restore', restored, backup)

    await using next = startLocalStack({ dataDir: restored })
    const { gateway, app_id: appId } = await next.ready()
    expect([appId, next.apiKey()]).toEqual([ready.app_id, stack.apiKey()])
    const there = apiClient(gateway, next.apiKey())
    const refs = ['before-the-backup', 'after-the-backup']
    const found = await Promise.all(
      refs.map((ref) => there.get<{ data: { id: string }[] }>(`${app}/licences?external_ref=${ref}`)),
    )
    expect(found.map(({ body }) => body.data.map(({ id }) => id))).toEqual([[kept.body.id], []])
    expect(await issue(there, 'before-the-backup')).toMatchObject({ status: 201, body: { id: kept.body.id } })
    // It needs the encrypted signing key.
    const installed = { fingerprint: 'machine-1', host: 'machine-1', product_version: '1.0.0' }
    const activation = { licence_key: kept.body.key, ...installed }
    expect(await there.post('/v1/activations', { key: null, body: activation })).toMatchObject({
      status: 201,
    })
    const newest = async (from: typeof api) => {
      const events = await from.get<{ data: { sequence: number }[] }>('/v1/events?after=0&limit=200')
      return events.body.data.map(({ sequence }) => sequence)
    }
    expect(await there.post(`/v1/licences/${kept.body.id}/suspend`)).toMatchObject({ status: 200 })
    await eventually(async () => {
      const sequences = await newest(there)
      expect(sequences).toEqual(sequences.map((_, at) => at + 1))
      expect(sequences.length).toBeGreaterThan(1)
    })
  },
)

test('crashed servers are restarted', async () => {
  const noted = await notedProcesses(dataDir)
  expect(noted.map(({ name }) => name).toSorted()).toEqual(['nats', 'postgres'])
  for (const { pid } of noted) process.kill(pid, 'SIGKILL')
  for (const name of ['nats', 'postgres']) {
    await eventually(() => expect(stack.stderr).toContain(`${name} ended (SIGKILL)`))
  }
  const api = apiClient(ready.gateway, stack.apiKey())
  await eventually(async () =>
    expect(await api.get(`/v1/apps/${ready.app_id}/plans`)).toMatchObject({ status: 200 }),
  )
  await eventually(async () => expect(await fetch(`${ready.gateway}/readyz`)).toMatchObject({ status: 200 }))
})

test('after kill -9 of the launcher no process keeps running, and the next start has the data', async () => {
  const api = apiClient(ready.gateway, stack.apiKey())
  const plan = await api.post(`/v1/apps/${ready.app_id}/plans`, { body: { name: 'Team', code: 'team' } })
  expect(plan.status).toBe(201)
  const family = await stack.family()
  await stack.end('SIGKILL')

  // The start is immediate, so some of the killed processes may still be ending.
  stack = startLocalStack({ dataDir })
  ready = await stack.ready()
  // The watchdog of a server ends a moment after the server.
  await eventually(async () => expect(await stillRunning(family)).toEqual([]))
  const { body } = await apiClient(ready.gateway, stack.apiKey()).get<{ data: { id: string }[] }>(
    `/v1/apps/${ready.app_id}/plans`,
  )
  expect(body.data.map(({ id }) => id)).toContain(plan.body['id'])
})

test('an uncaught exception in one service ends the whole stack with a message and an exit code', async () => {
  const defect = `process.on('SIGUSR2', () => { throw new Error('a defect of this test') })`
  await stack[Symbol.asyncDispose]()
  await using broken = startLocalStack({
    dataDir,
    environment: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(defect)}` },
  })
  await broken.ready()
  const family = await broken.family()
  expect(await broken.end('SIGUSR2')).toBe(1)
  expect(broken.stderr).toContain('npm start ends after a defect (uncaughtException): a defect of this test')
  expect(await stillRunning(family)).toEqual([])
})

test('if a setting of a service is invalid, the start fails with an explanation', async () => {
  await using invalid = startLocalStack({ dataDir, environment: { WEBHOOK_SLOTS: 'many' } })
  expect(await invalid.ended).toBe(1)
  expect(invalid.stderr).toContain('notifier could not start')
  expect(invalid.stderr).toContain('WEBHOOK_SLOTS: must be a whole number')
})

fullTest('the start uses one request of the demo key’s rate limit', async () => {
  await using limited = startLocalStack({ dataDir, environment: { RATE_LIMIT_PER_MINUTE: '2' } })
  const { gateway } = await limited.ready()
  const api = apiClient(gateway, limited.apiKey())
  expect(await api.get('/v1/account')).toMatchObject({ status: 200 })
  expect(await api.get('/v1/account')).toMatchObject({ status: 429, body: { code: 'rate_limited' } })
})

fullTest('a signal during the start stops it', async () => {
  await using early = startLocalStack({ dataDir: join(folder.path, 'early') })
  await eventually(() => expect(early.stderr).toContain('postgres is up'), { timeoutMs: 60_000 })
  const family = await early.family()
  expect(await early.end('SIGINT')).toBe(0)
  expect(early.stdout).not.toContain('ready')
  expect(await stillRunning(family)).toEqual([])
})

fullTest('npm run demo completes on its own stack', async () => {
  const output = await runDemo(join(folder.path, 'demo'))
  for (const seen of [
    'webhook 1 licence.suspended',
    'licence.created',
    'payment.succeeded',
    'refund.processed',
    'licence.revoked',
    '"reason":"revoked"',
    'migrateAsync(\'OLD-KEY-0001\') → {"status":"licensed"',
    'The demo is complete.',
  ]) {
    expect(output).toContain(seen)
  }
})

/** The processes that the next start would stop after a kill -9. */
async function notedProcesses(dataDir: string): Promise<{ name: string; pid: number }[]> {
  return JSON.parse(await readFile(join(dataDir, 'processes.json'), 'utf8')) as {
    name: string
    pid: number
  }[]
}

/** Runs the demo, expects success, and returns its output. */
async function runDemo(dataDir: string): Promise<string> {
  const env = { ...process.env, DATA_DIR: dataDir, DATABASE_URL: '', NATS_URL: '', STRIPE_SECRET_KEY: '' }
  const { stdout, stderr } = await run(process.execPath, [demo], { env, maxBuffer: 2 ** 26 })
  return stdout + stderr
}
