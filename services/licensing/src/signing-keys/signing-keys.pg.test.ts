import { fullTest } from '@licensing/test-support/drawn'
import { parseEncryptionKeys } from '@licensing/database/encryption'
import { newId } from '@licensing/database/ids'
import { eventually } from '@licensing/test-support/poll'
import { compactVerify, createLocalJWKSet, decodeProtectedHeader } from 'jose'
import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { givenLicence, raceRounds, refusal, atOnce } from '../../test/makers.ts'
import { reEncryptAllPrivateKeys } from './re-encrypt.ts'
import { rotateSigningKeys } from './rotate-signing-keys.ts'
import { keptSeconds } from './signing-keys.ts'
import { deleteOldSigningKeys } from './signing-key-queries.ts'
import { forFile, startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { callOf, givenActivation, keysOf, revocationsOf, verified } from '../../test/products.ts'

const harness = await forFile(startHarness)

async function givenInstalled() {
  const own = { ...harness, applicationId: newId('app') }
  const licence = await givenLicence(own)
  return { own, licence, grant: await givenActivation(own.products, licence) }
}

const encryption = () => parseEncryptionKeys(harness.settings.encryptionKey)

const rotate = (own: Harness, options: { leadSeconds?: number; leaked?: boolean } = {}) =>
  rotateSigningKeys(own.sql, encryption(), {
    applicationId: own.applicationId,
    leadSeconds: 0,
    leaked: false,
    ...options,
  })

const kidOf = (token: string) => decodeProtectedHeader(token).kid!

async function kidsOf(own: Harness): Promise<string[]> {
  return (await keysOf(own.products, own.applicationId)).keys.map((key) => key.kid!)
}

test('public keys are published in the form of RFC 7517 and RFC 8037, without private parts', async () => {
  const { own, grant } = await givenInstalled()
  const { keys } = await keysOf(own.products, own.applicationId)
  expect(keys).toEqual([
    {
      kty: 'OKP',
      crv: 'Ed25519',
      x: expect.stringMatching(/^[\w-]{43}$/) as string,
      kid: kidOf(grant.token),
      alg: 'EdDSA',
      use: 'sig',
    },
  ])
})

test('replicas that make an application’s first key at once use the same key', async () => {
  const replicas = [harness.products, (await harness.replica()).products, (await harness.replica()).products]
  for (let round = 0; round < raceRounds; round += 1) {
    const own = { ...harness, applicationId: newId('app') }
    const licence = await givenLicence(own)
    const tokens = await atOnce(9, async (at) => (await givenActivation(replicas[at % 3]!, licence)).token)
    expect(new Set(tokens.map(kidOf)).size).toBe(1)
    expect(await kidsOf(own)).toEqual([kidOf(tokens[0]!)])
  }
})

test('the next key is published before it signs, and tokens of the previous key stay valid', async () => {
  const { own, grant } = await givenInstalled()
  const other = (await own.replica()).products
  const former = kidOf(grant.token)
  await rotate(own, { leadSeconds: 3 })
  await eventually(async () => expect(await kidsOf(own)).toHaveLength(2))
  const [next] = await kidsOf(own)
  expect(next).not.toBe(former)
  expect(kidOf((await own.products.refreshActivation(callOf(grant))).token)).toBe(former)

  for (const products of [own.products, other]) {
    await eventually(async () => {
      const { token } = await products.refreshActivation(callOf(grant))
      expect(kidOf(token)).toBe(next)
      await verified(own, token)
    })
  }
  await verified(own, grant.token)
  await own.products.recordCallHome(callOf(grant))
})

test('if the keys are rotated again before the next key signs, only the latest key signs', async () => {
  const { own, grant } = await givenInstalled()
  await rotate(own, { leadSeconds: 60 })
  await rotate(own)
  await eventually(async () => {
    const kid = kidOf((await own.products.refreshActivation(callOf(grant))).token)
    expect(kid).not.toBe(kidOf(grant.token))
    expect(await kidsOf(own)).toContain(kid)
  })
  const current = await own.sql`
    select kid from signing_keys where application_id = ${own.applicationId} and retired_at is null`
  expect(current).toHaveLength(1)
})

fullTest('a replica that does not know a new key yet accepts its tokens', async () => {
  const { own, grant } = await givenInstalled()
  const fresh = (await own.replica()).products
  for (let round = 0; round < raceRounds; round += 1) {
    await own.products.refreshActivation(callOf(grant))
    await rotate(own)
    const unaware = (await own.replica()).products
    const { token } = await unaware.refreshActivation(callOf(grant))
    for (const products of [own.products, fresh]) {
      const again = await products.refreshActivation(callOf({ ...grant, token }))
      expect(again.activationId).toBe(grant.activationId)
    }
  }
})

test('a retired key is published until everything that it signed has expired, and then deleted', async () => {
  const { own, grant } = await givenInstalled()
  await rotate(own)
  const former = kidOf(grant.token)
  const age = async (seconds: number) => own.sql`
    update signing_keys set retired_at = now() - ${seconds}::int * interval '1 second' where kid = ${former}`
  await age(keptSeconds(86_400) - 5)
  await eventually(async () => expect(await kidsOf(own)).toContain(former))
  await deleteOldSigningKeys(own.sql, keptSeconds(86_400))
  await own.products.recordCallHome(callOf(grant))
  await age(keptSeconds(86_400) + 5)
  await eventually(async () => expect(await kidsOf(own)).not.toContain(former))
  await eventually(async () => {
    const refused = await refusal(own.products.recordCallHome(callOf(grant)))
    expect(refused).toMatchObject({ code: 'unauthenticated' })
  })
  await deleteOldSigningKeys(own.sql, keptSeconds(86_400))
  const rows = await own.sql`select kid from signing_keys where kid = ${former}`
  expect(rows).toHaveLength(0)
})

test('everything that a leaked key signed is invalid, and the licence key gets a new token', async () => {
  const { own, licence, grant } = await givenInstalled()
  await rotate(own, { leadSeconds: 60 })
  await rotate(own, { leaked: true })
  await eventually(async () => expect(await kidsOf(own)).toHaveLength(1))
  await eventually(async () => {
    const refused = await refusal(own.products.refreshActivation(callOf(grant)))
    expect(refused).toMatchObject({ code: 'unauthenticated' })
  })
  const { token } = await givenActivation(own.products, licence)
  expect(await kidsOf(own)).toEqual([kidOf(token)])
  await verified(own, token)
})

test('concurrent rotations, of one application or of all, leave one latest key each', async () => {
  const [first, second] = [await givenInstalled(), await givenInstalled()]
  await atOnce(5, () => rotate(first.own))
  const all = await rotateSigningKeys(harness.sql, encryption(), { leadSeconds: 0, leaked: false })
  expect(all).toEqual(expect.arrayContaining([first.own.applicationId, second.own.applicationId]))
  expect(new Set(all).size).toBe(all.length)
  await eventually(async () => expect(await kidsOf(first.own)).toHaveLength(7))
  await eventually(async () => expect(await kidsOf(second.own)).toHaveLength(2))
  for (const { own, grant } of [first, second]) {
    await verified(own, grant.token)
    await verified(own, (await own.products.refreshActivation(callOf(grant))).token)
  }
})

test('a rotation changes the ETag of the list, and a list signed before still verifies', async () => {
  const { own } = await givenInstalled()
  const { applicationId } = own
  const before = await revocationsOf(own.products, { applicationId })
  await rotate(own)
  await eventually(async () => {
    const after = await revocationsOf(own.products, { applicationId, ifNoneMatch: before.etag })
    expect(after.notModified).toBe(false)
    expect(kidOf(after.signature)).not.toBe(kidOf(before.signature))
  })
  const keys = createLocalJWKSet(await keysOf(own.products, applicationId))
  await compactVerify(before.signature, keys)
})

test('private keys, also of root keys, are stored encrypted, and sign with a new encryption key without the old one', async () => {
  await using own = await startHarness()
  const licence = await givenLicence(own)
  const grant = await givenActivation(own.products, licence)
  await own.rootKeys.getRootKeys({ applicationIds: [own.applicationId] })
  const stored = await own.sql<{ private_key: Buffer }[]>`
    select private_key from signing_keys union all select private_key from root_keys`
  for (const { private_key } of stored) expect(private_key.toString('latin1')).not.toContain('PRIVATE KEY')
  const next = randomBytes(32).toString('base64url')
  const both = parseEncryptionKeys(`${next},${own.settings.encryptionKey}`)
  expect(await reEncryptAllPrivateKeys(own.sql, both)).toBe(2)
  expect(await reEncryptAllPrivateKeys(own.sql, both)).toBe(0)
  const other = (await own.replica({ encryptionKey: next })).products
  const { token } = await other.refreshActivation(callOf(grant))
  expect(kidOf(token)).toBe(kidOf(grant.token))
  await verified({ ...own, products: other }, token)
  const { jwksJson } = await other.getSigningKeys({ applicationId: own.applicationId })
  expect(JSON.parse(jwksJson)).toMatchObject({ signed: [expect.any(String)] })
})
