import { fullTest } from '@licensing/test-support/drawn'
import { connectTo } from '@licensing/grpc/client'
import { BillingService } from '@licensing/proto/billing'
import { createTestDatabase } from '@licensing/test-support/database'
import { freeAddress } from '@licensing/test-support/free-address'
import { startOwnNats } from '@licensing/test-support/nats'
import { startService } from '@licensing/test-support/process'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { expect } from 'vitest'

fullTest('two replicas that start at once on an empty database serve, and stop cleanly', async () => {
  await using database = await createTestDatabase()
  await using nats = await startOwnNats()
  await using folder = await makeTemporaryFolder()
  const environments = await Promise.all(
    [1, 2].map(async () => ({
      GRPC_ADDRESS: await freeAddress(),
      METRICS_ADDRESS: await freeAddress(),
      DATABASE_URL: database.url,
      NATS_URL: nats.urlOf('billing'),
      CATALOG_ADDRESS: await freeAddress(),
      LICENSING_ADDRESS: await freeAddress(),
    })),
  )
  const replicas = await Promise.all(
    environments.map((environment, at) =>
      startService('billing', environment, folder.path, { name: `billing-${at}` }),
    ),
  )
  for (const [at, replica] of replicas.entries()) {
    await using _replica = replica
    const billing = connectTo(BillingService, environments[at]!.GRPC_ADDRESS)
    await expect(billing.calls.getProcessor({ accountId: 'acct_none' })).rejects.toMatchObject({
      code: 'not_found',
    })
    billing.close()
    const log = await replica.log()
    expect(log).toContain('STRIPE_SECRET_KEY is not set: nothing can be sold')
    expect(log).not.toContain('test mode')
    expect(await replica.stop()).toBe('exit code 0')
  }
})
