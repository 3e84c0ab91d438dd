import { newId } from '@licensing/database/ids'
import { compactVerify, createLocalJWKSet, decodeProtectedHeader } from 'jose'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { givenLicence, givenPlan, raceRounds, refusal, verbOn } from '../../test/makers.ts'
import { bought, happen } from '../../test/purchases.ts'
import { keysOf, revocationsOf, startProducts } from '../../test/products.ts'
import type { ProductsHarness } from '../../test/products.ts'

let harness: ProductsHarness
beforeAll(async () => {
  harness = await startProducts()
})
afterAll(() => harness[Symbol.asyncDispose]())
afterEach(() => {
  harness.clock.aheadMs = 0
})

/** The same vendor with an application whose list is empty. */
const withOwnApplication = (): ProductsHarness => ({ ...harness, applicationId: newId('app') })

const listOf = (own: ProductsHarness, since?: bigint, ifNoneMatch = '') =>
  revocationsOf(harness.products, {
    applicationId: own.applicationId,
    ifNoneMatch,
    ...(since !== undefined && { since }),
  })

async function givenRevoked(own: ProductsHarness, planId: string) {
  const licence = await givenLicence(own, { planId })
  await own.licensing.revokeLicence(verbOn(own, licence))
  return licence
}

async function signedPart(own: ProductsHarness, signature: string) {
  const keys = createLocalJWKSet(await keysOf(own.products, own.applicationId))
  const { payload } = await compactVerify(signature, keys, { algorithms: ['EdDSA'] })
  return JSON.parse(new TextDecoder().decode(payload)) as Record<string, unknown>
}

test('an application without revocations has version 0 and an empty, signed list', async () => {
  const own = withOwnApplication()
  const list = await listOf(own)
  expect(list).toMatchObject({ version: 0n, revoked: [], notModified: false })
  expect(await signedPart(own, list.signature)).toMatchObject({ version: 0, since: null, revoked: [] })
  expect(await listOf(own, 0n)).toMatchObject({ version: 0n, revoked: [] })
})

test('each revocation is in the list immediately, with its own version, and stays when the licence is retired', async () => {
  const own = withOwnApplication()
  const plan = await givenPlan(own)
  const first = await givenRevoked(own, plan.id)
  expect(await listOf(own)).toMatchObject({ version: 1n, revoked: [first.id] })
  const second = await givenRevoked(own, plan.id)
  expect(await listOf(own)).toMatchObject({ version: 2n, revoked: [first.id, second.id] })
  await own.licensing.retireLicence(verbOn(own, first))
  await own.licensing.revokeLicence(verbOn(own, second))
  expect(await listOf(own)).toMatchObject({ version: 2n, revoked: [first.id, second.id] })
})

test('a refund revokes like the verb; suspended, retired and expired licences are not in the list', async () => {
  const own = withOwnApplication()
  const plan = await givenPlan(own)
  const [refunded, suspended, retired, expired, downgraded] = await Promise.all(
    Array.from({ length: 5 }, () => bought(own, plan.id)),
  )
  await own.licensing.suspendLicence(verbOn(own, suspended!))
  await own.licensing.retireLicence(verbOn(own, retired!))
  await happen(own, expired!, 'a cancelled subscription')
  await happen(own, downgraded!, 'a partial refund')
  expect(await listOf(own)).toMatchObject({ version: 0n, revoked: [] })
  await happen(own, refunded!, 'a full refund')
  await happen(own, refunded!, 'a full refund')
  expect(await listOf(own)).toMatchObject({ version: 1n, revoked: [refunded!.id] })
  await happen(own, downgraded!, 'a full refund')
  await own.licensing.revokeLicence(verbOn(own, suspended!))
  await own.licensing.revokeLicence(verbOn(own, expired!))
  expect(await listOf(own)).toMatchObject({
    version: 4n,
    revoked: [refunded!.id, downgraded!.id, suspended!.id, expired!.id],
  })
})

test('a revocation that is rolled back takes no version', async () => {
  const own = withOwnApplication()
  const plan = await givenPlan(own)
  const licence = await givenLicence(own, { planId: plan.id })
  const undone = harness.sql.begin(async (tx) => {
    await tx`update licences set status = 'revoked' where id = ${licence.id}`
    throw new Error('undone')
  })
  await expect(undone).rejects.toThrow('undone')
  expect(await listOf(own)).toMatchObject({ version: 0n, revoked: [] })
  const next = await givenRevoked(own, plan.id)
  expect(await listOf(own)).toMatchObject({ version: 1n, revoked: [next.id] })
})

test('licences that are revoked in one statement get a version each', async () => {
  const own = withOwnApplication()
  const plan = await givenPlan(own)
  const licences = await Promise.all(Array.from({ length: 20 }, () => givenLicence(own, { planId: plan.id })))
  await harness.sql`update licences set status = 'revoked' where plan_id = ${plan.id}`
  const { version, revoked } = await listOf(own)
  expect(version).toBe(20n)
  expect(revoked.toSorted()).toEqual(licences.map((licence) => licence.id).toSorted())
})

test('with `since` only later revocations are listed, in the answer and in the signed part', async () => {
  const own = withOwnApplication()
  const plan = await givenPlan(own)
  const ids: string[] = []
  for (let count = 0; count < 4; count += 1) ids.push((await givenRevoked(own, plan.id)).id)
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
  const own = withOwnApplication()
  const plan = await givenPlan(own)
  const count = 2_000
  for (let at = 0; at < count; at += 500) {
    const items = Array.from({ length: 500 }, (_, n) => {
      return { legacyKey: `flood-${at + n}`, externalRef: 'x', planId: plan.id }
    })
    const { accountId, applicationId } = own
    await own.licensing.importLicences({ accountId, applicationId, actor: 'key_1', items, dryRun: false })
  }
  await harness.sql`update licences set status = 'revoked' where plan_id = ${plan.id}`
  const { revoked: all } = await listOf(own)
  expect(all).toHaveLength(count)
  const signatures = new Map<string, number>()
  for (let from = 0; from <= count; from += 50) {
    const some = Array.from({ length: Math.min(50, count + 1 - from) }, (_, at) => from + at)
    const lists = await Promise.all(some.map((since) => listOf(own, BigInt(since))))
    lists.forEach(({ version, revoked, signature, etag }, at) => {
      expect([version, revoked.length, revoked[0]]).toEqual([2_000n, count - some[at]!, all[some[at]!]])
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
    const own = withOwnApplication()
    const plan = await givenPlan(own)
    await givenRevoked(own, plan.id)
    expect(await refusal(listOf(own, since))).toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/since' }],
    })
  },
)

test('the signature names its key, and each application has its own', async () => {
  const [own, other] = [withOwnApplication(), withOwnApplication()]
  const list = await listOf(own)
  const { alg, kid } = decodeProtectedHeader(list.signature)
  expect(alg).toBe('EdDSA')
  const { keys } = await keysOf(own.products, own.applicationId)
  expect(keys.map((key) => key.kid)).toEqual([kid])
  await expect(signedPart(other, list.signature)).rejects.toThrow('no applicable key')
})

test('a matching ETag gets 304 until a licence is revoked', async () => {
  const own = withOwnApplication()
  const plan = await givenPlan(own)
  const { etag } = await listOf(own)
  for (const held of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
    expect(await listOf(own, undefined, held)).toMatchObject({ notModified: true, etag, signature: '' })
  }
  expect(await listOf(own, 0n, etag)).toMatchObject({ notModified: false })
  expect(await listOf(own, undefined, '"other"')).toMatchObject({ notModified: false })
  await givenRevoked(own, plan.id)
  const next = await listOf(own, undefined, etag)
  expect(next).toMatchObject({ notModified: false, version: 1n })
  expect(next.etag).not.toBe(etag)
})

test('an unchanged list is signed again long before it expires', async () => {
  const own = withOwnApplication()
  const { etag, signature } = await listOf(own)
  expect((await listOf(own)).signature).toBe(signature)
  harness.clock.aheadMs = 12 * 3_600_000
  const renewed = await listOf(own, undefined, etag)
  expect(renewed.notModified).toBe(false)
  const [before, after] = [await signedPart(own, signature), await signedPart(own, renewed.signature)]
  expect(Number(after['iat']) - Number(before['iat'])).toBeGreaterThan(11 * 3_600)
})

test('both replicas give the same list the same ETag', async () => {
  const own = withOwnApplication()
  const other = await harness.otherProducts()
  const plan = await givenPlan(own)
  await givenRevoked(own, plan.id)
  const { etag, revoked } = await listOf(own)
  const theirs = await revocationsOf(other, { applicationId: own.applicationId, ifNoneMatch: '' })
  expect(theirs).toMatchObject({ etag, revoked })
})

test('while 50 licences are revoked at once, a client that follows version by version misses no revocation', async () => {
  const own = withOwnApplication()
  const replica = await harness.replica()
  const other = await harness.otherProducts()
  const plan = await givenPlan(own)
  for (let round = 0; round < Math.ceil(raceRounds / 3); round += 1) {
    const licences = await Promise.all(
      Array.from({ length: 50 }, () => givenLicence(own, { planId: plan.id })),
    )
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

test('an invalid application id has no list and no keys', async () => {
  const { products } = harness
  for (const applicationId of ['app_nonsense', newId('lic')]) {
    expect(await refusal(products.getRevocations({ applicationId }))).toMatchObject({ code: 'not_found' })
    expect(await refusal(products.getSigningKeys({ applicationId }))).toMatchObject({ code: 'not_found' })
  }
})
