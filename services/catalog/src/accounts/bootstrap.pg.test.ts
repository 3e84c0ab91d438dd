import { expect, test } from 'vitest'
import { hashOfKey, newKey } from '../api-keys/key-format.ts'
import { firstPage, startTestCatalog } from '../../test/catalog.ts'
import { bootstrap } from './bootstrap.ts'

const settings = { ALERT_EMAIL: 'ops@localhost', FEE_BPS: 175, FEE_FIXED_MINOR: 30 }

test('replicas that start at the same time create one demo account; another start changes nothing', async () => {
  await using catalog = await startTestCatalog()
  const key = newKey()
  const config = { ...settings, BOOTSTRAP_API_KEY: key }
  await Promise.all(Array.from({ length: 8 }, () => bootstrap(catalog.sql, config)))
  await bootstrap(catalog.sql, { ...config, ALERT_EMAIL: 'other@localhost', FEE_BPS: 1 })

  const { accountId, scopes } = await catalog.calls.authenticateKey({ keyHash: hashOfKey(key) })
  expect(scopes).toEqual(['admin', 'read', 'revoke', 'issue'])
  expect(await catalog.calls.getAccount({ accountId })).toMatchObject({
    name: 'Demo',
    alertEmail: 'ops@localhost',
    feeBps: 175,
    feeFixedMinor: 30n,
  })
  expect((await catalog.calls.listApplications({ accountId, ...firstPage })).applications).toHaveLength(1)
  expect((await catalog.calls.listApiKeys({ accountId, ...firstPage })).apiKeys).toHaveLength(1)
  expect(await catalog.sql`select id from accounts`).toHaveLength(1)
})

test('without BOOTSTRAP_API_KEY no account is created', async () => {
  await using catalog = await startTestCatalog()
  await bootstrap(catalog.sql, { ...settings, BOOTSTRAP_API_KEY: undefined })
  expect(await catalog.sql`select id from accounts`).toHaveLength(0)
})

test('another key at a later start is added to the demo account; a revoked key stays revoked', async () => {
  await using catalog = await startTestCatalog()
  const [first, second] = [newKey(), newKey()]
  await bootstrap(catalog.sql, { ...settings, BOOTSTRAP_API_KEY: first })
  await bootstrap(catalog.sql, { ...settings, BOOTSTRAP_API_KEY: second })
  const principal = await catalog.calls.authenticateKey({ keyHash: hashOfKey(first) })
  const other = await catalog.calls.authenticateKey({ keyHash: hashOfKey(second) })
  expect(other).toMatchObject({ accountId: principal.accountId, scopes: principal.scopes })
  await catalog.calls.revokeApiKey({ accountId: principal.accountId, keyId: principal.keyId })
  await bootstrap(catalog.sql, { ...settings, BOOTSTRAP_API_KEY: first })
  await expect(catalog.calls.authenticateKey({ keyHash: hashOfKey(first) })).rejects.toMatchObject({
    code: 'unauthenticated',
  })
})
