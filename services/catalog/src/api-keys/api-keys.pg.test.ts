import { newId } from '@licensing/database/ids'
import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { eventsOf, firstPage, givenTenant, startTestCatalog, outcomeOf } from '../../test/catalog.ts'
import { hashOfKey } from './key-format.ts'

test('a key is shown once, stored as a hash, and identifies its account, scopes and application', async () => {
  await using catalog = await startTestCatalog()
  const { accountId, applicationId } = await givenTenant(catalog)
  const { calls, sql } = catalog
  const wanted = { accountId, name: 'CI', scopes: ['read', 'issue', 'read'], applicationId }
  const { apiKey, key } = await calls.createApiKey(wanted)
  expect(apiKey).toMatchObject({
    name: 'CI',
    scopes: ['read', 'issue'],
    applicationId,
    lastFour: key.slice(-4),
  })
  expect(await calls.authenticateKey({ keyHash: hashOfKey(key) })).toMatchObject({
    keyId: apiKey!.id,
    accountId,
    scopes: ['read', 'issue'],
    applicationId,
  })
  const [row] = await sql<{ text: string }[]>`select k::text as text from api_keys k`
  expect(row!.text).not.toContain(key.slice(11, -4))
})

test('an unknown hash and an invalid hash are unauthenticated', async () => {
  await using catalog = await startTestCatalog()
  const { accountId } = await givenTenant(catalog)
  const { key } = await catalog.calls.createApiKey({ accountId, name: 'x', scopes: ['read'] })
  const right = hashOfKey(key)
  for (const keyHash of [
    randomBytes(32),
    Buffer.alloc(0),
    right.subarray(0, 31),
    Buffer.concat([right, right]),
  ]) {
    await expect(catalog.calls.authenticateKey({ keyHash })).rejects.toMatchObject({
      code: 'unauthenticated',
    })
  }
})

test('a revoked key is refused and stays in the list; revoking it again changes nothing and has the same answer', async () => {
  await using catalog = await startTestCatalog()
  const { accountId, applicationId } = await givenTenant(catalog)
  const { calls, sql } = catalog
  const { apiKey, key } = await calls.createApiKey({ accountId, name: 'x', scopes: ['read'], applicationId })
  const revoke = () => calls.revokeApiKey({ accountId, keyId: apiKey!.id })
  await Promise.all(Array.from({ length: 10 }, revoke))
  const keyHash = hashOfKey(key)
  await expect(calls.authenticateKey({ keyHash })).rejects.toMatchObject({ code: 'unauthenticated' })
  const listed = await calls.listApiKeys({ accountId, ...firstPage })
  expect(listed.apiKeys).toMatchObject([{ id: apiKey!.id, revokedAt: expect.anything() }])
  await revoke()
  expect(await calls.listApiKeys({ accountId, ...firstPage })).toEqual(listed)
  expect(await eventsOf(sql)).toEqual([])
})

test('a key of another account, an unknown id and a text that is no id are not found, and revoke nothing', async () => {
  await using catalog = await startTestCatalog()
  const { accountId } = await givenTenant(catalog)
  const otherTenant = await givenTenant(catalog)
  const { calls } = catalog
  const { apiKey, key } = await calls.createApiKey({ accountId, name: 'x', scopes: ['read'] })
  for (const request of [
    { accountId: otherTenant.accountId, keyId: apiKey!.id },
    { accountId, keyId: newId('key') },
    { accountId, keyId: 'key_\0' },
  ]) {
    await expect(calls.revokeApiKey(request)).rejects.toMatchObject({ code: 'not_found' })
  }
  expect(await calls.authenticateKey({ keyHash: hashOfKey(key) })).toMatchObject({ accountId })
})

test('the list has every use so far, on either replica, and last_used_at never moves backward', async () => {
  await using catalog = await startTestCatalog()
  const { accountId } = await givenTenant(catalog)
  const { replicas } = catalog
  const { key } = await replicas[0].createApiKey({ accountId, name: 'x', scopes: ['read'] })
  const keyHash = hashOfKey(key)
  const lastUse = async (replica: 0 | 1) => {
    const { apiKeys } = await replicas[replica].listApiKeys({ accountId, ...firstPage })
    const at = apiKeys[0]!.lastUsedAt
    return at && Number(at.seconds) * 1000 + at.nanos / 1e6
  }
  expect(await lastUse(0)).toBeUndefined()
  let before = Date.now()
  for (const replica of [0, 1, 0] as const) {
    await Promise.all(Array.from({ length: 20 }, () => replicas[replica].authenticateKey({ keyHash })))
    const used = await lastUse(replica)
    expect(used).toBeGreaterThanOrEqual(before)
    before = used!
  }
})

test('a key with wrong scopes, no name or the application of another account is refused with each field', async () => {
  await using catalog = await startTestCatalog()
  const { accountId } = await givenTenant(catalog)
  const otherTenant = await givenTenant(catalog)
  const refusal = (change: object) =>
    outcomeOf(catalog.calls.createApiKey({ accountId, name: 'x', scopes: ['read'], ...change }))
  expect(await refusal({ scopes: [] })).toBe('validation_failed /scopes')
  expect(await refusal({ scopes: ['read', 'root'] })).toBe('validation_failed /scopes/1')
  expect(await refusal({ name: '' })).toBe('validation_failed /name')
  for (const applicationId of [otherTenant.applicationId, newId('app'), 'x', 'nul\0']) {
    expect(await refusal({ applicationId })).toBe('validation_failed /app_id')
  }
  expect((await catalog.calls.listApiKeys({ accountId, ...firstPage })).apiKeys).toEqual([])
})

test('a key is found by its id, even if it is revoked; a key of another account, an unknown id and a text that is no id are not found', async () => {
  await using catalog = await startTestCatalog()
  const { accountId, applicationId } = await givenTenant(catalog)
  const otherTenant = await givenTenant(catalog)
  const { calls } = catalog
  const { apiKey } = await calls.createApiKey({ accountId, name: 'CI', scopes: ['issue'], applicationId })
  const keyId = apiKey!.id
  expect(await calls.getApiKey({ accountId, keyId })).toMatchObject({
    id: keyId,
    name: 'CI',
    scopes: ['issue'],
    applicationId,
  })
  await calls.revokeApiKey({ accountId, keyId })
  expect(await calls.getApiKey({ accountId, keyId })).toMatchObject({ revokedAt: expect.anything() })
  for (const request of [
    { accountId: otherTenant.accountId, keyId },
    { accountId, keyId: newId('key') },
    { accountId, keyId: 'key_\0' },
  ]) {
    await expect(calls.getApiKey(request)).rejects.toMatchObject({ code: 'not_found' })
  }
})

test('many keys are looked up in one call, even while all other connections are in use; invalid keys have no principal', async () => {
  await using catalog = await startTestCatalog()
  const { accountId, applicationId } = await givenTenant(catalog)
  const { calls, sql } = catalog
  const made = await calls.createApiKey({ accountId, name: 'x', scopes: ['read'], applicationId })
  const revoked = await calls.createApiKey({ accountId, name: 'y', scopes: ['read'] })
  await calls.revokeApiKey({ accountId, keyId: revoked.apiKey!.id })
  const wrong = Array.from({ length: 400 }, () => randomBytes(32))
  const keyHashes = [...wrong, hashOfKey(made.key), hashOfKey(revoked.key), Buffer.alloc(0), Buffer.alloc(31)]
  // The pool of the test's catalog has 20 connections.
  const held = await Promise.all(Array.from({ length: 20 }, () => sql.reserve()))
  try {
    const { answers } = await calls.authenticateKeys({ keyHashes })
    expect(answers).toHaveLength(404)
    expect(answers[400]!.principal).toMatchObject({
      keyId: made.apiKey!.id,
      accountId,
      scopes: ['read'],
      applicationId,
    })
    expect(answers.filter(({ principal }) => principal !== undefined)).toHaveLength(1)
  } finally {
    for (const connection of held) connection.release()
  }
  const tooMany = Array.from({ length: 1_001 }, () => randomBytes(32))
  await expect(calls.authenticateKeys({ keyHashes: tooMany })).rejects.toMatchObject({
    code: 'validation_failed',
  })
})
