import { expect, test } from 'vitest'
import { hashOfKey, newKey } from './api-keys/key-format.ts'
import { catalogOfFile, firstPage } from '../test/catalog.ts'
import { bootstrap } from './bootstrap.ts'

const { calls, sql } = await catalogOfFile()

test('replicas that start at the same time with a key create one demo account; later starts only add another key', async () => {
  const settings = { ALERT_EMAIL: 'ops@localhost' }
  const fee = { bps: 175, fixedMinor: 30n }
  const demoAccounts = () => sql`select id from accounts where name = 'Demo'`
  await bootstrap(sql, { ...settings, BOOTSTRAP_API_KEY: undefined }, fee)
  expect(await demoAccounts()).toHaveLength(0)

  const [key, second] = [newKey(), newKey()]
  const config = { ...settings, BOOTSTRAP_API_KEY: key }
  await Promise.all(Array.from({ length: 8 }, () => bootstrap(sql, config, fee)))
  const other = { ALERT_EMAIL: 'other@localhost' }
  await bootstrap(sql, { ...other, BOOTSTRAP_API_KEY: key }, { bps: 1, fixedMinor: 1n })
  const { accountId, actorId: keyId, scopes } = await calls.authenticateKey({ keyHash: hashOfKey(key) })
  expect(scopes).toEqual(['admin', 'read', 'revoke', 'issue'])
  expect(await calls.getAccount({ accountId })).toMatchObject({
    name: 'Demo',
    alertEmail: 'ops@localhost',
    feeBps: 175,
    feeFixedMinor: 30n,
  })
  expect((await calls.listApplications({ accountId, ...firstPage })).applications).toHaveLength(1)
  expect((await calls.listApiKeys({ accountId, ...firstPage })).apiKeys).toHaveLength(1)

  await bootstrap(sql, { ...other, BOOTSTRAP_API_KEY: second }, fee)
  expect(await calls.authenticateKey({ keyHash: hashOfKey(second) })).toMatchObject({ accountId, scopes })
  expect(await demoAccounts()).toHaveLength(1)
  await calls.revokeApiKey({ accountId, keyId })
  await bootstrap(sql, config, fee)
  await expect(calls.authenticateKey({ keyHash: hashOfKey(key) })).rejects.toMatchObject({
    code: 'unauthenticated',
  })
})
