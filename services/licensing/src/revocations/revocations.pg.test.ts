import { compactVerify, createLocalJWKSet, decodeProtectedHeader } from 'jose'
import { afterEach, expect, test } from 'vitest'
import {
  givenLicence,
  givenPlan,
  raceRounds,
  refusal,
  verbOn,
  importItems,
  atOnce,
} from '../../test/makers.ts'
import { forFile, startHarness, newVendor } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { keysOf, revocationsOf } from '../../test/products.ts'

const harness = await forFile(startHarness)
afterEach(() => {
  harness.clock.aheadMs = 0
})

const listOf = (own: Harness, since?: bigint, ifNoneMatch = '') =>
  revocationsOf(harness.products, { applicationId: own.applicationId, ifNoneMatch, since })

async function givenRevoked(own: Harness) {
  const licence = await givenLicence(own)
  await own.licensing.revokeLicence(verbOn(own, licence))
  return licence
}

async function signedPart(own: Harness, signature: string) {
  const keys = createLocalJWKSet(await keysOf(own.products, own.applicationId))
  const { payload } = await compactVerify(signature, keys, { algorithms: ['EdDSA'] })
  return JSON.parse(new TextDecoder().decode(payload)) as Record<string, unknown>
}

test('an application without revocations has version 0 and an empty, signed list', async () => {
  const own = newVendor(harness)
  const list = await listOf(own)
  expect(list).toMatchObject({ version: 0n, revoked: [], notModified: false })
  expect(await signedPart(own, list.signature)).toMatchObject({ version: 0, since: null, revoked: [] })
  expect(await listOf(own, 0n)).toMatchObject({ version: 0n, revoked: [] })
})

test('each revocation is in the list immediately, with its own version, and stays when the licence is retired', async () => {
  const own = newVendor(harness)
  const first = await givenRevoked(own)
  expect(await listOf(own)).toMatchObject({ version: 1n, revoked: [first.id] })
  const second = await givenRevoked(own)
  expect(await listOf(own)).toMatchObject({ version: 2n, revoked: [first.id, second.id] })
  await own.licensing.retireLicence(verbOn(own, first))
  await own.licensing.revokeLicence(verbOn(own, second))
  expect(await listOf(own)).toMatchObject({ version: 2n, revoked: [first.id, second.id] })
})

test('a revocation that is rolled back takes no version', async () => {
  const own = newVendor(harness)
  const plan = await givenPlan(own)
  const licence = await givenLicence(own, { planId: plan.id })
  const undone = harness.sql.begin(async (tx) => {
    await tx`update licences set status = 'revoked' where id = ${licence.id}`
    throw new Error('undone')
  })
  await expect(undone).rejects.toThrow('undone')
  expect(await listOf(own)).toMatchObject({ version: 0n, revoked: [] })
  const next = await givenRevoked(own)
  expect(await listOf(own)).toMatchObject({ version: 1n, revoked: [next.id] })
})

test('with `since` only later revocations are listed, in the answer and in the signed part', async () => {
  const own = newVendor(harness)
  const ids: string[] = []
  for (let count = 0; count < 4; count += 1) ids.push((await givenRevoked(own)).id)
  for (const since of [undefined, 0n, 1n, 3n, 4n]) {
    const { version, revoked, signature } = await listOf(own, since)
    expect(version).toBe(4n)
    expect(revoked).toEqual(ids.slice(Number(since ?? 0n)))
    const signed = await signedPart(own, signature)
    const { iat, exp } = signed as { iat: number; exp: number }
    expect(signed).toEqual({
      app_id: own.applicationId,
      version: 4,
      since: since === undefined ? null : Number(since),
      revoked,
      iat,
      exp,
    })
    expect(Math.abs(iat - Date.now() / 1000)).toBeLessThan(60)
    expect(exp).toBe(iat + 86_400)
  }
})

test('requests with many different values of `since` cause some hundred signatures, and each answer is exact', async () => {
  const own = newVendor(harness)
  const plan = await givenPlan(own)
  const count = 1_000
  for (let at = 0; at < count; at += 500) {
    const keys = Array.from({ length: 500 }, (_, n) => `flood-${at + n}`)
    await importItems(
      own,
      keys.map((legacyKey) => ({ legacyKey, planId: plan.id })),
    )
  }
  await harness.sql`update licences set status = 'revoked' where plan_id = ${plan.id}`
  const { revoked: all } = await listOf(own)
  expect(all).toHaveLength(count)
  const signatures = new Map<string, number>()
  for (let from = 0; from <= count; from += 50) {
    const some = Array.from({ length: Math.min(50, count + 1 - from) }, (_, at) => from + at)
    const lists = await Promise.all(some.map((since) => listOf(own, BigInt(since))))
    lists.forEach(({ version, revoked, signature, etag }, at) => {
      expect([version, revoked.length, revoked[0]]).toEqual([1_000n, count - some[at]!, all[some[at]!]])
      expect(etag).toContain(`-${some[at]}-`)
      if (!signatures.has(signature)) signatures.set(signature, some[at]!)
    })
  }
  expect(signatures.size).toBeLessThan(300)
  // The signed list starts at `since` or earlier, is at most twice as long, and has all later revocations.
  for (const [signature, since] of [...signatures].slice(0, 20)) {
    const signed = (await signedPart(own, signature)) as { since: number; revoked: string[] }
    expect(signed.since).toBeLessThanOrEqual(since)
    expect(signed.revoked).toEqual(all.slice(signed.since))
    expect(signed.revoked.length).toBeLessThanOrEqual(2 * (count - since))
  }
})

test.each([5n, 1_000_000n, -1n])(
  'since %s, a version that the list does not have, is refused',
  async (since) => {
    const own = newVendor(harness)
    await givenRevoked(own)
    expect(await refusal(listOf(own, since))).toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/since' }],
    })
  },
)

test('the signature names its key, and each application has its own', async () => {
  const [own, other] = [newVendor(harness), newVendor(harness)]
  const list = await listOf(own)
  const { alg, kid } = decodeProtectedHeader(list.signature)
  expect(alg).toBe('EdDSA')
  const { keys } = await keysOf(own.products, own.applicationId)
  expect(keys.map((key) => key.kid)).toEqual([kid])
  await expect(signedPart(other, list.signature)).rejects.toThrow('no applicable key')
})

test('a matching ETag gets 304 until a licence is revoked', async () => {
  const own = newVendor(harness)
  const { etag } = await listOf(own)
  for (const held of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
    expect(await listOf(own, undefined, held)).toMatchObject({ notModified: true, etag, signature: '' })
  }
  expect(await listOf(own, 0n, etag)).toMatchObject({ notModified: false })
  expect(await listOf(own, undefined, '"other"')).toMatchObject({ notModified: false })
  await givenRevoked(own)
  const next = await listOf(own, undefined, etag)
  expect(next).toMatchObject({ notModified: false, version: 1n })
  expect(next.etag).not.toBe(etag)
})

test('an unchanged list is signed again long before it expires', async () => {
  const own = newVendor(harness)
  const { etag, signature } = await listOf(own)
  expect((await listOf(own)).signature).toBe(signature)
  harness.clock.aheadMs = 12 * 3_600_000
  const renewed = await listOf(own, undefined, etag)
  expect(renewed.notModified).toBe(false)
  const [before, after] = [await signedPart(own, signature), await signedPart(own, renewed.signature)]
  expect(Number(after['iat']) - Number(before['iat'])).toBeGreaterThan(11 * 3_600)
})

test('while 50 licences are revoked at once, a client that follows version by version misses no revocation', async () => {
  const own = newVendor(harness)
  const replica = await harness.replica()
  const other = (await harness.replica()).products
  const plan = await givenPlan(own)
  for (let round = 0; round < Math.ceil(raceRounds / 3); round += 1) {
    const licences = await atOnce(50, () => givenLicence(own, { planId: plan.id }))
    const { version: start } = await listOf(own)
    let revoking = true
    const follow = async (products: typeof other): Promise<string[]> => {
      const seen: string[] = []
      for (let since = start, last = false; ;) {
        const { version, revoked } = await revocationsOf(products, {
          applicationId: own.applicationId,
          since,
          ifNoneMatch: '',
        })
        expect(revoked).toHaveLength(Number(version - since))
        seen.push(...revoked)
        since = version
        if (last) return seen
        last = !revoking
      }
    }
    const followers = [follow(own.products), follow(other), follow(own.products)]
    await Promise.all(
      licences.map((licence, at) => [own, replica][at % 2]!.licensing.revokeLicence(verbOn(own, licence))),
    )
    revoking = false
    const wanted = licences.map((licence) => licence.id).toSorted()
    for (const seen of await Promise.all(followers)) expect(seen.toSorted()).toEqual(wanted)
    expect((await listOf(own)).version).toBe(start + 50n)
  }
  await replica[Symbol.asyncDispose]()
}, 900_000)
