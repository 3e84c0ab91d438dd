import { newId } from '@licensing/database/ids'
import { randomBytes } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { catalogOfFile, eventsOf, firstPage, givenTenant, outcomeOf, outcomesOf } from '../../test/catalog.ts'
import type { Tenant } from '../../test/catalog.ts'
import { hashOfKey } from './key-format.ts'

const catalog = await catalogOfFile()
const { calls, replicas, sql } = catalog
let tenant: Tenant
beforeEach(async () => void (tenant = await givenTenant(catalog)))

test('a key is shown once, stored as a hash, and identifies its account, scopes and application', async () => {
  const { accountId, applicationId } = tenant
  const wanted = { accountId, name: 'CI', scopes: ['read', 'issue', 'read'], applicationId }
  const { apiKey, key } = await calls.createApiKey(wanted)
  const scopes = ['read', 'issue']
  expect(apiKey).toMatchObject({ name: 'CI', scopes, applicationId, lastFour: key.slice(-4) })
  const principal = await calls.authenticateKey({ keyHash: hashOfKey(key) })
  expect(principal).toMatchObject({ actorId: apiKey!.id, accountId, scopes, applicationId })
  const [row] = await sql<{ text: string }[]>`select k::text as text from api_keys k where id = ${apiKey!.id}`
  expect(row!.text).not.toContain(key.slice(11, -4))
})

test('an unknown hash and an invalid hash are unauthenticated', async () => {
  const { key } = await calls.createApiKey({ ...tenant, name: 'x', scopes: ['read'] })
  const right = hashOfKey(key)
  const wrong = [randomBytes(32), Buffer.alloc(0), right.subarray(0, 31), Buffer.concat([right, right])]
  const attempts = wrong.map((keyHash) => calls.authenticateKey({ keyHash }))
  expect(await outcomesOf(attempts)).toEqual(attempts.map(() => 'unauthenticated'))
})

test('a revoked key is refused and stays in the list; revoking it again changes nothing and has the same answer', async () => {
  const { accountId, applicationId } = tenant
  const { apiKey, key } = await calls.createApiKey({ accountId, name: 'x', scopes: ['read'], applicationId })
  const revoke = () => calls.revokeApiKey({ accountId, keyId: apiKey!.id })
  await Promise.all(Array.from({ length: 10 }, revoke))
  const keyHash = hashOfKey(key)
  await expect(calls.authenticateKey({ keyHash })).rejects.toMatchObject({ code: 'unauthenticated' })
  const listed = await calls.listApiKeys({ accountId, ...firstPage })
  expect(listed.apiKeys).toMatchObject([{ id: apiKey!.id, revokedAt: expect.anything() }])
  await revoke()
  expect(await calls.listApiKeys({ accountId, ...firstPage })).toEqual(listed)
  expect(await eventsOf(catalog, tenant)).toEqual([])
})

test('the list has every use so far, on either replica, and last_used_at never moves backward', async () => {
  const { accountId } = tenant
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
  const { accountId } = tenant
  const otherTenant = await givenTenant(catalog)
  const refusal = (change: object) =>
    outcomeOf(calls.createApiKey({ accountId, name: 'x', scopes: ['read'], ...change }))
  expect(await refusal({ scopes: [] })).toBe('validation_failed /scopes')
  expect(await refusal({ scopes: ['read', 'root'] })).toBe('validation_failed /scopes/1')
  expect(await refusal({ name: '' })).toBe('validation_failed /name')
  for (const applicationId of [otherTenant.applicationId, newId('app'), 'x', 'nul\0']) {
    expect(await refusal({ applicationId })).toBe('validation_failed /app_id')
  }
  expect((await calls.listApiKeys({ accountId, ...firstPage })).apiKeys).toEqual([])
})

test('a key is found by its id, even if it is revoked', async () => {
  const { accountId } = tenant
  const { apiKey } = await calls.createApiKey({ ...tenant, name: 'CI', scopes: ['issue'] })
  const path = { accountId, keyId: apiKey!.id }
  expect(await calls.getApiKey(path)).toEqual(apiKey)
  await calls.revokeApiKey(path)
  expect(await calls.getApiKey(path)).toMatchObject({ name: 'CI', revokedAt: expect.anything() })
})

test('a key of another account, an unknown id and a text that is no id are not found, and nothing is revoked', async () => {
  const { accountId } = tenant
  const other = await givenTenant(catalog)
  const { apiKey, key } = await calls.createApiKey({ accountId, name: 'x', scopes: ['read'] })
  for (const path of [
    { accountId: other.accountId, keyId: apiKey!.id },
    { accountId, keyId: newId('key') },
    { accountId, keyId: 'key_\0' },
  ]) {
    const attempts = [calls.getApiKey(path), calls.revokeApiKey(path)]
    expect(await outcomesOf(attempts)).toEqual(['not_found', 'not_found'])
  }
  expect(await calls.authenticateKey({ keyHash: hashOfKey(key) })).toMatchObject({ accountId })
})

test('many keys are looked up in one call, even while all other connections are in use; invalid keys have no principal', async () => {
  const { accountId, applicationId } = tenant
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
    const { id: actorId, scopes } = made.apiKey!
    expect(answers[400]!.principal).toMatchObject({ actorId, accountId, scopes, applicationId })
    expect(answers.filter(({ principal }) => principal !== undefined)).toHaveLength(1)
  } finally {
    for (const connection of held) connection.release()
  }
  const tooMany = Array.from({ length: 1_001 }, () => randomBytes(32))
  expect(await outcomeOf(calls.authenticateKeys({ keyHashes: tooMany }))).toMatch('validation_failed')
})
