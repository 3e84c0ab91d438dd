import { connectTo } from '@licensing/grpc/client'
import { CatalogService } from '@licensing/proto/catalog'
import { createTestDatabase } from '@licensing/test-support/database'
import { startOwnNats } from '@licensing/test-support/nats'
import { startService } from '@licensing/test-support/process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { hashOfKey, newKey } from './api-keys/key-format.ts'
import { freeAddress } from './testing/free-address.ts'
import { startLicensingStub } from './testing/licensing-stub.ts'

async function givenEnvironment() {
  await using starting = new AsyncDisposableStack()
  const database = starting.use(await createTestDatabase())
  const nats = starting.use(await startOwnNats())
  const licensing = starting.use(await startLicensingStub())
  const folder = await mkdtemp(join(tmpdir(), 'catalog-'))
  starting.defer(() => rm(folder, { recursive: true }))
  const running = starting.move()
  const environment = async () => ({
    GRPC_ADDRESS: await freeAddress(),
    METRICS_ADDRESS: await freeAddress(),
    DATABASE_URL: database.url,
    NATS_URL: nats.url,
    LICENSING_ADDRESS: licensing.address,
  })
  return { environment, folder, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

test('two replicas that start at once on an empty database make one demo account, and stop cleanly', async () => {
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
    const { applications } = await catalog.calls.listApplications({ accountId: principal.accountId })
    expect(applications).toMatchObject([{ name: 'Demo' }])
    catalog.close()
    expect(await replica.stop()).toBe('exit code 0')
  }
})
