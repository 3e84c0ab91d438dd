import { connectTo } from '@licensing/grpc/client'
import { CatalogService } from '@licensing/proto/catalog'
import { createTestDatabase } from '@licensing/test-support/database'
import { freeAddress } from '@licensing/test-support/free-address'
import { startOwnNats } from '@licensing/test-support/nats'
import { eventually } from '@licensing/test-support/poll'
import { startOwnPostgres } from '@licensing/test-support/postgres'
import { startService } from '@licensing/test-support/process'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { expect, test } from 'vitest'
import { hashOfKey, newKey } from './api-keys/key-format.ts'
import { startLicensingStub } from '../test/licensing-stub.ts'
import { outcomeOf } from '../test/catalog.ts'

test('it creates the demo account; while PostgreSQL is unavailable it is not ready and answers `unavailable`; it recovers by itself', async () => {
  await using postgres = await startOwnPostgres()
  await using database = await createTestDatabase(postgres.url())
  await using nats = await startOwnNats()
  await using licensing = await startLicensingStub()
  await using folder = await makeTemporaryFolder()
  const key = newKey()
  const environment = {
    // As in the images: all addresses of both families.
    GRPC_ADDRESS: await freeAddress('[::]'),
    METRICS_ADDRESS: await freeAddress('[::]'),
    DATABASE_URL: database.url,
    NATS_URL: nats.urlOf('catalog'),
    LICENSING_ADDRESS: licensing.address,
    NOTIFIER_ADDRESS: await freeAddress(),
    BOOTSTRAP_API_KEY: key,
    ALERT_EMAIL: 'ops@localhost',
    FEE_BPS: '250',
  }
  await using service = await startService('catalog', environment, folder.path)
  for (const host of ['127.0.0.1', '[::1]']) {
    const reached = connectTo(CatalogService, environment.GRPC_ADDRESS.replace('[::]', host))
    await reached.calls.authenticateKey({ keyHash: hashOfKey(key) })
    reached.close()
    expect((await fetch(`http://${environment.METRICS_ADDRESS.replace('[::]', host)}/healthz`)).status).toBe(
      200,
    )
  }
  const catalog = connectTo(CatalogService, environment.GRPC_ADDRESS)
  const use = () => catalog.calls.authenticateKey({ keyHash: hashOfKey(key) })
  const { accountId } = await use()
  expect(await catalog.calls.getAccount({ accountId })).toMatchObject({
    name: 'Demo',
    alertEmail: 'ops@localhost',
    feeBps: 250,
    feeFixedMinor: 0n,
  })
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
