import { newId } from '@licensing/database/ids'
import { drawing, isFull } from '@licensing/test-support/drawn'
import { compactVerify, createLocalJWKSet } from 'jose'
import { afterEach, expect, test } from 'vitest'
import { revocationLists } from './get-revocations.ts'
import { forFile, startHarness } from '../../test/harness.ts'
import { keysOf, revocationsOf } from '../../test/products.ts'

const harness = await forFile(startHarness)
afterEach(() => {
  harness.clock.aheadMs = 0
})

/** An application with a revocation list of this size. The entries are generated from their numbers. */
async function givenList(size: number, applicationId = newId('app'), from = 1): Promise<string> {
  for (let first = from; first <= size; first += 50_000) {
    await harness.sql`
      insert into revocations (application_id, version, licence_id)
      select ${applicationId}, n, 'lic_' || lpad(n::text, 26, '0')
      from generate_series(${first}::int, ${Math.min(size, first + 49_999)}::int) as n`
  }
  return applicationId
}

const licenceAt = (version: number) => `lic_${String(version).padStart(26, '0')}`

const poll = (applicationId: string, since?: number) =>
  revocationsOf(harness.products, { applicationId, since: since === undefined ? since : BigInt(since) })

interface Signed {
  version: number
  since: number | null
  revoked: string[]
  iat: number
}

async function signedBy(applicationId: string, signature: string): Promise<Signed> {
  const keys = createLocalJWKSet(await keysOf(harness.products, applicationId))
  const { payload } = await compactVerify(signature, keys, { algorithms: ['EdDSA'] })
  return JSON.parse(new TextDecoder().decode(payload)) as Signed
}

const cpuMsOf = async (work: () => Promise<unknown>) => {
  const before = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}

test(`long lists, polled from everywhere, are each signed once and sent whole (${drawing})`, async () => {
  const longest = isFull ? 1_000_000 : 200_000
  const lists = [longest, 160_000, 160_000, 160_000, 160_000].slice(0, isFull ? 5 : 2)
  const applications = await Promise.all(lists.map((size) => givenList(size)))
  const polls = lists.flatMap((size, at) =>
    [undefined, 0, 1, size / 4 + 7, size / 2, size - 20_000, size - 300, size - 1, size].map((since) => ({
      applicationId: applications[at]!,
      size,
      since,
    })),
  )
  const ask = ({ applicationId, since }: (typeof polls)[number]) =>
    harness.products.getRevocations({
      applicationId,
      ...(since !== undefined && { since: BigInt(since) }),
    })
  const signatures: string[] = []
  for (const each of polls) {
    const { version, parts, list } = await ask(each)
    expect(version).toBe(BigInt(each.size))
    if (each.size - (each.since ?? 0) > 20_000) expect(parts).toBeGreaterThan(4)
    signatures.push(list!.signature)
  }
  // A list that is signed again has another time, and so another signature.
  harness.clock.aheadMs = 60_000
  for (const [at, each] of polls.entries()) expect((await ask(each)).list!.signature).toBe(signatures[at])
  for (const since of [undefined, longest - 37_850, longest - 1]) {
    const { revoked, signature } = await poll(applications[0]!, since)
    expect(revoked).toHaveLength(longest - (since ?? 0))
    const signed = await signedBy(applications[0]!, signature)
    expect(signed.revoked.slice(-revoked.length)).toEqual(revoked)
    expect([signed.version, signed.revoked[0]]).toEqual([longest, licenceAt((signed.since ?? 0) + 1)])
  }
}, 900_000)

test('another poll of a list of 200,000 needs memory for its text, not for another list', async () => {
  const applicationId = await givenList(200_000)
  const ask = () => harness.products.getRevocations({ applicationId })
  const first = await cpuMsOf(ask)
  const further: number[] = []
  for (let round = 0; round < 20; round += 1) further.push(await cpuMsOf(ask))
  expect(Math.min(...further)).toBeLessThan(first / 10)
}, 300_000)

test('every replica sends the same part, and an unknown part is refused', async () => {
  const other = (await harness.replica()).products
  const applicationId = await givenList(20_000)
  const { list, parts } = await harness.products.getRevocations({ applicationId })
  expect(parts).toBeGreaterThan(2)
  for (let part = 1; part < parts; part += 1) {
    const [own, theirs] = await Promise.all(
      [harness.products, other].map((products) => products.getRevocationsPart({ applicationId, list, part })),
    )
    expect(Buffer.from(theirs!.json).equals(Buffer.from(own!.json))).toBe(true)
  }
  await expect(
    harness.products.getRevocationsPart({ applicationId, list, part: parts }),
  ).rejects.toMatchObject({ code: 'validation_failed' })
})

test('a client that follows a growing list misses and repeats nothing', async () => {
  const applicationId = await givenList(4_090)
  let since = 0
  for (const size of [4_090, 4_096, 4_097, 8_192, 8_200, 20_000]) {
    if (size > 4_090) await givenList(size, applicationId, since + 1)
    const [whole, added] = [await poll(applicationId), await poll(applicationId, since)]
    expect(whole.revoked).toEqual(Array.from({ length: size }, (_, at) => licenceAt(at + 1)))
    expect(added.revoked).toEqual(whole.revoked.slice(since))
    expect((await signedBy(applicationId, whole.signature)).revoked).toEqual(whole.revoked)
    since = size
  }
})

test('a list that is too long for one answer can be read to its end in several', async () => {
  const maxEntries = 512
  const lists = revocationLists(harness.productDeps, maxEntries)
  const applicationId = await givenList(2_000)
  const ask = async (since?: number) => {
    const request = { applicationId, since: since === undefined ? undefined : BigInt(since) }
    const { json, version } = await lists.get(request as Parameters<typeof lists.get>[0])
    const text = Buffer.from(json as Uint8Array).toString()
    const { revoked, signature } = JSON.parse(text) as { revoked: string[]; signature: string }
    const signed = await signedBy(applicationId, signature)
    expect(signed.revoked.length).toBeLessThanOrEqual(maxEntries)
    expect(signed.revoked.slice(-revoked.length)).toEqual(revoked)
    return { version: Number(version), revoked }
  }
  const first = await ask()
  expect(first.version).toBe(512)
  const seen = [...first.revoked]
  for (let held = first.version; held < 2_000;) {
    const { version, revoked } = await ask(held)
    expect(version).toBeGreaterThan(held)
    seen.push(...revoked)
    held = version
  }
  expect(seen).toEqual(Array.from({ length: 2_000 }, (_, at) => licenceAt(at + 1)))
  expect(await ask(2_000)).toEqual({ version: 2_000, revoked: [] })
})

test('if too many long lists of one application wait to be signed, more get unavailable; another application’s list is signed', async () => {
  const [flooded, quiet] = [await givenList(200_000), await givenList(100_000)]
  const lists = revocationLists(harness.productDeps)
  const ask = (applicationId: string, since: number) =>
    lists.get({ applicationId, since: BigInt(since) } as Parameters<typeof lists.get>[0])
  // Each octave of distances has two starts at most; a revocation in between makes another state of the list.
  const asked: Promise<unknown>[] = []
  for (let state = 0; state < 6; state += 1) {
    for (const since of [0, 70_000, 100_000, 140_000]) asked.push(ask(flooded, since))
    await givenList(200_001 + state, flooded, 200_001 + state)
  }
  const answered = ask(quiet, 0).then(() => 'answered')
  const outcomes = await Promise.allSettled(asked)
  expect(await answered).toBe('answered')
  const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
  for (const { reason } of refused) expect(reason).toMatchObject({ code: 'unavailable' })
  expect(outcomes.length - refused.length).toBeGreaterThanOrEqual(16)
})
