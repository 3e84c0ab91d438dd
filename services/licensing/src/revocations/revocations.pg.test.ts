import { fullTest } from '@licensing/test-support/drawn'
import { create } from '@bufbuild/protobuf'
import { GetRevocationsRequestSchema } from '@licensing/proto/products'
import { compactVerify, createLocalJWKSet, decodeProtectedHeader } from 'jose'
import { afterEach, expect, test } from 'vitest'
import { givenLicence, givenPlan, raceRounds, refusal, verbOn, atOnce } from '../../test/makers.ts'
import { forFile, startHarness, newVendor } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { keysOf, revocationsOf } from '../../test/products.ts'
import { createGetRevocations } from './get-revocations.ts'

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

test('in the first epoch, an application without revocations has version 0 and an empty, signed list', async () => {
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
      more: false,
      iat,
      exp,
    })
    expect(Math.abs(iat - Date.now() / 1000)).toBeLessThan(60)
    expect(exp).toBe(iat + 86_400)
  }
})

/** Adds revocations to an application's list, as many licences as versions. */
async function givenEntries(own: Harness, from: number, to: number): Promise<void> {
  await harness.sql`
    insert into revocations (application_id, version, licence_id)
    select ${own.applicationId}, n, 'lic_' || lpad(n::text, 26, '0') from generate_series(${from}::int, ${to}::int) as n`
}

const licenceAt = (version: number) => `lic_${String(version).padStart(26, '0')}`
const max = 16_384

/** Reads a list to its end, as products do. */
async function readAll(
  own: Harness,
  since?: bigint,
): Promise<{ version: bigint; revoked: string[]; answers: number }> {
  const revoked: string[] = []
  for (let from = since, answers = 1; ; answers += 1) {
    const answer = await listOf(own, from)
    expect(await signedPart(own, answer.signature)).toMatchObject({
      version: Number(answer.version),
      since: from === undefined ? null : Number(from),
      revoked: answer.revoked,
      more: answer.more,
    })
    expect(answer.revoked.length).toBeLessThanOrEqual(max)
    revoked.push(...answer.revoked)
    from = answer.version
    if (!answer.more) return { version: from, revoked, answers }
  }
}

test('an answer has at most 16,384 licences, the oldest first, and the rest is read with its version', async () => {
  const own = newVendor(harness)
  await givenEntries(own, 1, max)
  const full = await listOf(own)
  expect(full).toMatchObject({ version: BigInt(max), more: false })
  await givenEntries(own, max + 1, 2 * max + 7)
  // The same licences, but the list goes on: a client that polls learns it.
  expect(await listOf(own, undefined, full.etag)).toMatchObject({ notModified: false, more: true })
  const first = await listOf(own)
  expect(first).toMatchObject({ version: BigInt(max), more: true })
  expect([first.revoked[0], first.revoked.at(-1)]).toEqual([licenceAt(1), licenceAt(max)])
  const all = Array.from({ length: 2 * max + 7 }, (_, at) => licenceAt(at + 1))
  expect(await readAll(own)).toEqual({ version: BigInt(all.length), revoked: all, answers: 3 })
  const later = await readAll(own, 9n)
  expect(later).toEqual({ version: BigInt(all.length), revoked: all.slice(9), answers: 2 })
  // An answer with `more` stays the same while the list grows: neither it nor its ETag changes.
  await givenEntries(own, 2 * max + 8, 2 * max + 8)
  expect(await listOf(own)).toEqual(first)
  expect(await listOf(own, undefined, first.etag)).toMatchObject({ notModified: true, etag: first.etag })
  expect(await listOf(own, BigInt(2 * max))).toMatchObject({ more: false, version: BigInt(2 * max + 8) })
})

test('a poll that finds nothing new makes no answer, and polls of one moment share one look-up', async () => {
  const own = newVendor(harness)
  await givenEntries(own, 1, 5_000)
  const statements: string[] = []
  const sql = (text: TemplateStringsArray, ...values: never[]) => {
    statements.push(text.join('?'))
    return harness.productDeps.sql(text, ...values)
  }
  const get = createGetRevocations({ ...harness.productDeps, sql: sql as never })
  const poll = (since?: bigint, ifNoneMatch = '') =>
    get(
      create(GetRevocationsRequestSchema, {
        applicationId: own.applicationId,
        ifNoneMatch,
        ...(since !== undefined && { since }),
      }),
    )
  const { etag } = await listOf(own)
  const { etag: upToDate } = await listOf(own, 5_000n)
  const answers = await atOnce(100, (at) => (at % 2 === 0 ? poll(undefined, etag) : poll(5_000n, upToDate)))
  expect(answers.map(({ notModified }) => notModified)).toEqual(Array(100).fill(true))
  expect(statements.filter((text) => text.includes('string_agg'))).toEqual([])
  expect(statements.length).toBeLessThan(5)
  await atOnce(100, () => poll())
  expect(statements.filter((text) => text.includes('string_agg'))).toHaveLength(1)
})

fullTest(
  'while one application is asked for a long list from everywhere, others are answered in time',
  async () => {
    const [own, quiet] = [newVendor(harness), newVendor(harness)]
    await givenEntries(own, 1, 20_000)
    await givenRevoked(quiet)
    let flooding = true
    const flood = atOnce(30, async (at) => {
      for (let since = at; flooding; since += 30) await listOf(own, BigInt(since % 3_000))
    })
    const times: number[] = []
    for (let since = 0; since < 20; since += 1) {
      const began = performance.now()
      await listOf(quiet, BigInt(since % 2))
      times.push(performance.now() - began)
    }
    flooding = false
    await flood
    expect(times.toSorted((one, other) => one - other)[10]).toBeLessThan(500)
  },
  60_000,
)

test.each([5n, 1_000_000n, 2n ** 52n, -1n])(
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
