import { parseEncryptionKeys } from '@licensing/database/encryption'
import { newId } from '@licensing/database/ids'
import { eventually } from '@licensing/test-support/poll'
import { compactVerify, decodeProtectedHeader, importJWK } from 'jose'
import type { JWK } from 'jose'
import { expect, test } from 'vitest'
import { rotateSigningKeys } from './rotate-signing-keys.ts'
import { forFile, startHarness } from '../../test/harness.ts'
import type { Products } from '../../test/products.ts'
import { raceRounds, refusal, atOnce } from '../../test/makers.ts'

const accountId = newId('acct')
const harness = await forFile(startHarness)

interface Published {
  keys: JWK[]
  signed: string[]
}

async function published(applicationId: string, products: Products = harness.products): Promise<Published> {
  return JSON.parse((await products.getSigningKeys({ applicationId })).jwksJson) as Published
}

async function rootKeyOf(applicationId: string): Promise<string> {
  return (await harness.rootKeys.getRootKeys({ applicationIds: [applicationId] })).rootKeys[0]!
}

/** The content that a root key signed, verified as in a product: only with the text that is compiled into it. */
async function opened(jws: string, rootKey: string) {
  const key = await importJWK({ kty: 'OKP', crv: 'Ed25519', x: rootKey.slice('lrk_'.length) }, 'EdDSA')
  const { payload, protectedHeader } = await compactVerify(jws, key)
  expect(protectedHeader).toEqual({ alg: 'EdDSA', kid: rootKey })
  return JSON.parse(new TextDecoder().decode(payload)) as {
    app_id: string
    keys: JWK[]
    iat: number
    exp: number
  }
}

const rotateSigning = (applicationId: string, leaked = false) =>
  rotateSigningKeys(harness.sql, parseEncryptionKeys(harness.settings.encryptionKey), {
    applicationId,
    leadSeconds: 0,
    leaked,
  })

test('a root key is `lrk_` and the 32 bytes of a public key', async () => {
  const applicationId = newId('app')
  const rootKey = await rootKeyOf(applicationId)
  expect(rootKey).toMatch(/^lrk_[\w-]{43}$/)
  expect(Buffer.from(rootKey.slice(4), 'base64url')).toHaveLength(32)
  expect(await rootKeyOf(applicationId)).toBe(rootKey)
})

test('several applications get their root keys in the order of the request; a repeated one has one key', async () => {
  const [a, b] = [newId('app'), newId('app')]
  const known = await rootKeyOf(b)
  const { rootKeys } = await harness.rootKeys.getRootKeys({ applicationIds: [a, b, a] })
  expect(rootKeys).toEqual([await rootKeyOf(a), known, await rootKeyOf(a)])
  expect(rootKeys[0]).not.toBe(known)
  const refused = await refusal(harness.rootKeys.getRootKeys({ applicationIds: [a, 'app_x'] }))
  expect(refused.code).toBe('not_found')
})

test('replicas that make an application’s first root key at once answer the same key', async () => {
  const replicas = [harness, await harness.replica(), await harness.replica()]
  for (let round = 0; round < raceRounds; round += 1) {
    const applicationIds = [newId('app'), newId('app')]
    const answers = await atOnce(9, (at) =>
      replicas[at % 3]!.rootKeys.getRootKeys({
        applicationIds: at % 2 ? applicationIds : applicationIds.toReversed(),
      }),
    )
    const named = answers.map(({ rootKeys }, at) => (at % 2 ? rootKeys : rootKeys.toReversed()).join())
    expect(new Set(named).size).toBe(1)
  }
})

test('the published set is signed by the root key for 30 days, and contains the same keys', async () => {
  const applicationId = newId('app')
  const rootKey = await rootKeyOf(applicationId)
  const { keys, signed } = await published(applicationId)
  expect(signed).toHaveLength(1)
  const claims = await opened(signed[0]!, rootKey)
  expect(claims).toEqual({ app_id: applicationId, keys, iat: claims.iat, exp: claims.iat + 30 * 86_400 })
  expect(Math.abs(claims.iat - Date.now() / 1000)).toBeLessThan(60)
})

test('many requests on all replicas cause one signature', async () => {
  const applicationId = newId('app')
  const replicas = [harness.products, (await harness.replica()).products, (await harness.replica()).products]
  const answers = await atOnce(300, (at) => published(applicationId, replicas[at % 3]))
  expect(new Set(answers.map(({ signed }) => signed.join())).size).toBe(1)
  const fresh = (await harness.replica()).products
  expect((await published(applicationId, fresh)).signed).toEqual(answers[0]!.signed)
})

test('a set is signed again after a day, with a later time even if a clock is behind', async () => {
  const applicationId = newId('app')
  const rootKey = await rootKeyOf(applicationId)
  const first = await opened((await published(applicationId)).signed[0]!, rootKey)
  try {
    harness.clock.aheadMs = 23 * 3_600_000
    const later = await published(applicationId, (await harness.replica()).products)
    expect((await opened(later.signed[0]!, rootKey)).iat).toBe(first.iat)
    harness.clock.aheadMs = 25 * 3_600_000
    const [renewed] = (await published(applicationId, (await harness.replica()).products)).signed
    const second = await opened(renewed!, rootKey)
    expect(second.iat).toBeGreaterThanOrEqual(first.iat + 86_400)
    // Even a replica whose clock is a day behind gives a changed set a later time.
    harness.clock.aheadMs = 0
    await rotateSigning(applicationId)
    const [changed] = (await published(applicationId, (await harness.replica()).products)).signed
    expect((await opened(changed!, rootKey)).iat).toBe(second.iat + 1)
  } finally {
    harness.clock.aheadMs = 0
  }
})

test('while signing keys change on busy replicas, a later set never lacks a key of an earlier one', async () => {
  const applicationId = newId('app')
  const rootKey = await rootKeyOf(applicationId)
  const replicas = [harness.products, (await harness.replica()).products, (await harness.replica()).products]
  // Without a first signing key there is nothing to rotate.
  await published(applicationId)
  const seen: { iat: number; kids: string[] }[] = []
  let done = false
  const readers = replicas.map(async (products) => {
    while (!done) {
      const { signed } = await published(applicationId, products)
      const { iat, keys } = await opened(signed[0]!, rootKey)
      seen.push({ iat, kids: keys.map(({ kid }) => kid!) })
    }
  })
  try {
    for (let round = 0; round < 4; round += 1) {
      await rotateSigning(applicationId)
      const rows = await harness.sql<{ kid: string }[]>`
        select kid from signing_keys where application_id = ${applicationId} and retired_at is null`
      await eventually(async () => {
        for (const products of replicas) {
          const { keys } = await published(applicationId, products)
          expect(keys.map(({ kid }) => kid)).toContain(rows[0]!.kid)
        }
      })
    }
  } finally {
    done = true
    await Promise.all(readers)
  }
  const ordered = seen.toSorted((a, b) => a.iat - b.iat)
  for (const [at, { iat, kids }] of ordered.entries()) {
    const next = ordered[at + 1]
    if (!next) break
    if (next.iat === iat) expect(next.kids).toEqual(kids)
    else expect(next.kids).toEqual(expect.arrayContaining(kids))
  }
  expect(new Set(seen.map(({ iat }) => iat)).size).toBeGreaterThan(2)
})

test('a leaked signing key is in no later set', async () => {
  const applicationId = newId('app')
  const rootKey = await rootKeyOf(applicationId)
  const [leaked] = (await published(applicationId)).keys
  await rotateSigning(applicationId, true)
  await eventually(async () => {
    const { keys, signed } = await published(applicationId)
    expect(keys.map(({ kid }) => kid)).not.toContain(leaked!.kid)
    expect((await opened(signed[0]!, rootKey)).keys).toEqual(keys)
  })
})

test('after a rotation the root key is the newest, and each current one signs the same set', async () => {
  const applicationId = newId('app')
  const first = await rootKeyOf(applicationId)
  await published(applicationId)
  const rotated = await harness.rootKeys.rotateRootKey({ accountId, applicationId })
  expect(rotated).toMatchObject({ current: [rotated.rootKey, first], retired: [] })
  expect(rotated.rootKey).not.toBe(first)
  expect(await rootKeyOf(applicationId)).toBe(rotated.rootKey)
  await eventually(async () => {
    const { keys, signed } = await published(applicationId)
    expect(signed.map((jws) => decodeProtectedHeader(jws).kid)).toEqual([rotated.rootKey, first])
    expect((await opened(signed[0]!, rotated.rootKey)).keys).toEqual(keys)
    expect((await opened(signed[1]!, first)).keys).toEqual(keys)
  })
})

test('older root keys are retired 180 days after the rotation or if forced; then they no longer sign', async () => {
  const applicationId = newId('app')
  const first = await rootKeyOf(applicationId)
  const { rootKeys } = harness
  expect(await rootKeys.retireRootKeys({ accountId, applicationId, force: false })).toMatchObject({
    rootKey: first,
    retired: [],
  })
  const { rootKey } = await rootKeys.rotateRootKey({ accountId, applicationId })
  const early = await refusal(rootKeys.retireRootKeys({ accountId, applicationId, force: false }))
  expect(early).toMatchObject({ code: 'conflict' })
  expect(early.message).toContain('--force')
  const age = (days: number) => harness.sql`
    update root_keys set created_at = now() - ${days}::int * interval '1 day' where kid = ${rootKey}`
  await age(179)
  expect((await refusal(rootKeys.retireRootKeys({ accountId, applicationId, force: false }))).code).toBe(
    'conflict',
  )
  await age(180)
  const ended = { rootKey, current: [rootKey], retired: [first] }
  expect(await rootKeys.retireRootKeys({ accountId, applicationId, force: false })).toMatchObject(ended)
  expect(await rootKeys.retireRootKeys({ accountId, applicationId, force: true })).toMatchObject({
    retired: [],
  })
  await eventually(async () => {
    const { signed } = await published(applicationId)
    expect(signed.map((jws) => decodeProtectedHeader(jws).kid)).toEqual([rootKey])
  })

  const next = await rootKeys.rotateRootKey({ accountId, applicationId })
  const forced = await rootKeys.retireRootKeys({ accountId, applicationId, force: true })
  expect(forced).toMatchObject({ rootKey: next.rootKey, retired: [rootKey] })
})

test('concurrent rotations add one root key each', async () => {
  const applicationId = newId('app')
  await atOnce(5, () => harness.rootKeys.rotateRootKey({ accountId, applicationId }))
  const { current } = await harness.rootKeys.retireRootKeys({ accountId, applicationId, force: true })
  expect(current).toEqual([await rootKeyOf(applicationId)])
  const rows = await harness.sql`select kid from root_keys where application_id = ${applicationId}`
  expect(rows).toHaveLength(6)
})
