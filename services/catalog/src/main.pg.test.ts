import { connectTo } from '@licensing/grpc/client'
import { CatalogService } from '@licensing/proto/catalog'
import { createTestDatabase } from '@licensing/test-support/database'
import { freeAddress } from '@licensing/test-support/free-address'
import { startOwnNats } from '@licensing/test-support/nats'
import { eventually } from '@licensing/test-support/poll'
import { startOwnPostgres } from '@licensing/test-support/postgres'
import { startService } from '@licensing/test-support/process'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { hashOfKey, newKey } from './api-keys/key-format.ts'
import { startLicensingStub } from '../test/licensing-stub.ts'
import { outcomeOf, firstPage } from '../test/catalog.ts'

async function givenEnvironment(postgresUrl?: string) {
  await using starting = new AsyncDisposableStack()
  const database = starting.use(await createTestDatabase(postgresUrl))
  const nats = starting.use(await startOwnNats())
  const licensing = starting.use(await startLicensingStub())
  const folder = await mkdtemp(join(tmpdir(), 'catalog-'))
  starting.defer(() => rm(folder, { recursive: true }))
  const running = starting.move()
  const environment = async () => ({
    GRPC_ADDRESS: await freeAddress(),
    METRICS_ADDRESS: await freeAddress(),
    DATABASE_URL: database.url,
    NATS_URL: nats.urlOf('catalog'),
    LICENSING_ADDRESS: licensing.address,
    NOTIFIER_ADDRESS: await freeAddress(),
  })
  return {
    environment,
    folder,
    databaseUrl: database.url,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

test('two replicas that start at the same time on an empty database create one demo account, and stop cleanly', async () => {
  await using given = await givenEnvironment()
  const key = newKey()
  const settings = { BOOTSTRAP_API_KEY: key, ALERT_EMAIL: 'ops@localhost', FEE_BPS: '250' }
  const environments = [await given.environment(), await given.environment()]
  const replicas = await Promise.all(
    environments.map((environment, at) =>
      startService('catalog', { ...environment, ...settings }, given.folder, { name: `catalog-${at}` }),
    ),
  )
  for (const [at, replica] of replicas.entries()) {
    await using _ = replica
    const catalog = connectTo(CatalogService, environments[at]!.GRPC_ADDRESS)
    const principal = await catalog.calls.authenticateKey({ keyHash: hashOfKey(key) })
    expect(principal.scopes.sort()).toEqual(['admin', 'issue', 'read', 'revoke'])
    expect(await catalog.calls.getAccount({ accountId: principal.accountId })).toMatchObject({
      name: 'Demo',
      alertEmail: 'ops@localhost',
      feeBps: 250,
      feeFixedMinor: 0n,
    })
    const { applications } = await catalog.calls.listApplications({
      accountId: principal.accountId,
      ...firstPage,
    })
    expect(applications).toMatchObject([{ name: 'Demo' }])
    catalog.close()
    expect(await replica.stop()).toBe('exit code 0')
  }
})

test('a key revoked by the command is refused by the running service', async () => {
  await using given = await givenEnvironment()
  const environment = await given.environment()
  await using _ = await startService('catalog', environment, given.folder)
  const admin = (...args: string[]) => {
    const program = join(import.meta.dirname, 'admin/licensing-admin.ts')
    const env = { ...process.env, DATABASE_URL: given.databaseUrl }
    return JSON.parse(execFileSync(process.execPath, [program, ...args], { env, encoding: 'utf8' })) as {
      account_id: string
      key_id: string
      key: string
    }
  }
  const account = admin('create-account', '--name', 'Acme')
  const made = admin('create-key', '--account', account.account_id, '--name', 'CI', '--scopes', 'read')
  const catalog = connectTo(CatalogService, environment.GRPC_ADDRESS)
  const keyHash = hashOfKey(made.key)
  expect(await catalog.calls.authenticateKey({ keyHash })).toMatchObject({ accountId: account.account_id })
  admin('revoke', made.key_id)
  await expect(catalog.calls.authenticateKey({ keyHash })).rejects.toMatchObject({ code: 'unauthenticated' })
  catalog.close()
})

test('while PostgreSQL is unavailable it is not ready and answers `unavailable`; it recovers by itself', async () => {
  await using postgres = await startOwnPostgres()
  await using given = await givenEnvironment(postgres.url())
  const key = newKey()
  const environment = { ...(await given.environment()), BOOTSTRAP_API_KEY: key }
  await using service = await startService('catalog', environment, given.folder)
  const catalog = connectTo(CatalogService, environment.GRPC_ADDRESS)
  const use = () => catalog.calls.authenticateKey({ keyHash: hashOfKey(key) })
  const { accountId } = await use()
  for (const end of [() => postgres.kill(), () => postgres.stop()]) {
    await end()
    expect(await outcomeOf(use())).toBe('unavailable')
    expect((await fetch(`${service.operationsUrl}/readyz`)).status).toBe(503)
    await postgres.start()
    await eventually(use)
    expect(await catalog.calls.createApplication({ accountId, name: 'after' })).toMatchObject({ accountId })
    await service.untilReady()
  }
  catalog.close()
  expect(await service.stop()).toBe('exit code 0')
})

test('the command writes results to standard output, errors to standard error, and sets its exit code', async () => {
  const run = async (...args: string[]) => {
    const command = spawn(join(import.meta.dirname, 'admin/licensing-admin.ts'), args, {
      env: { PATH: `${dirname(process.execPath)}:${process.env.PATH}` },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [output, errors] = await Promise.all([
      text(command.stdout),
      text(command.stderr),
      once(command, 'close'),
    ])
    return { output, errors, code: command.exitCode }
  }
  expect(await run('--help')).toMatchObject({
    code: 0,
    errors: '',
    output: expect.stringContaining('set-fee'),
  })
  expect(await run('lst')).toMatchObject({
    code: 2,
    errors: expect.stringContaining('unknown command lst'),
    output: '',
  })
})
