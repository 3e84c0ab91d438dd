import { parseEncryptionKeys } from '@licensing/database/encryption'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import { eventually } from '@licensing/test-support/poll'
import { compactVerify, createLocalJWKSet, decodeProtectedHeader, importJWK, jwtVerify } from 'jose'
import type { JWK } from 'jose'
import { expect, test } from 'vitest'
import { givenLicence, refusal, verbOn } from '../../test/makers.ts'
import type { IssueFields } from '../../test/makers.ts'
import { rotateSigningKeys } from '../signing-keys/rotate-signing-keys.ts'
import { deleteOldSigningKeys } from '../signing-keys/signing-key-queries.ts'
import { keptSeconds } from '../signing-keys/signing-keys.ts'
import { forFile, startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { activate, callOf, keysOf, activateOffline } from '../../test/products.ts'

const harness = await forFile(startHarness)

const daySeconds = 86_400

async function given(fields: Partial<IssueFields> = {}) {
  const own = { ...harness, applicationId: newId('app') }
  return { own, licence: await givenLicence(own, { ...fields }) }
}

/** The file's parts, verified with the root key alone. */
async function opened({ rootKeys, applicationId }: Harness, file: string) {
  const [begin, token, ...rest] = file.split('\n')
  expect([begin, rest.at(-2), rest.at(-1)]).toEqual(['-----BEGIN LICENCE-----', '-----END LICENCE-----', ''])
  const signed = rest.slice(0, -2)
  const [rootKey] = (await rootKeys.getRootKeys({ applicationIds: [applicationId] })).rootKeys
  const key = await importJWK({ kty: 'OKP', crv: 'Ed25519', x: rootKey!.slice(4) }, 'EdDSA')
  const jws = signed.find((each) => decodeProtectedHeader(each).kid === rootKey)
  const { payload } = await compactVerify(jws!, key)
  const set = JSON.parse(new TextDecoder().decode(payload)) as Record<string, unknown> & { keys: JWK[] }
  const verified = await jwtVerify(token!, createLocalJWKSet(set), { audience: applicationId })
  return { token: token!, claims: verified.payload, set, signed }
}

test('the file has a token for the requested number of days, and can be verified with only the root key', async () => {
  const { own, licence } = await given({ maxSeats: 4 })
  const answer = await activateOffline(own, licence, { fingerprint: 'machine-1', days: 366 })
  expect(answer).toMatchObject({ licenceId: licence.id, created: true })
  const { token, claims, set } = await opened(own, answer.file)
  expect(claims).toMatchObject({
    sub: licence.id,
    aud: own.applicationId,
    act: answer.activationId,
    plan_id: licence.planId,
    status: 'active',
    seats: 4,
    chk: 900,
    offline: true,
    fingerprint: 'machine-1',
  })
  expect(claims.exp! - claims.iat!).toBe(366 * daySeconds)
  expect(timestampDate(answer.expiresAt!).getTime()).toBe(claims.exp! * 1000)
  expect(set).toEqual({ app_id: own.applicationId, keys: set.keys, iat: claims.iat, exp: claims.exp })
  expect(set.keys.map(({ kid }) => kid)).toEqual([decodeProtectedHeader(token).kid])
})

test('a token of an offline activation ends with the licence', async () => {
  const expiresOn = new Date(Date.now() + 10 * daySeconds * 1000)
  const { own, licence } = await given({ expiresOn })
  const { claims, set } = await opened(own, (await activateOffline(own, licence)).file)
  expect(claims.exp).toBe(Math.floor(expiresOn.getTime() / 1000))
  expect(set['exp']).toBe(claims.exp)
})

test('every current root key signs the file', async () => {
  const { own, licence } = await given()
  const { current } = await own.rootKeys.rotateRootKey({
    accountId: own.accountId,
    applicationId: own.applicationId,
  })
  const { signed } = await opened(own, (await activateOffline(own, licence)).file)
  expect(signed.map((jws) => decodeProtectedHeader(jws).kid)).toEqual(current)
})

test('an offline activation occupies a slot like any other, and the same fingerprint renews it', async () => {
  const { own, licence } = await given({ maxActivations: 2 })
  const first = await activateOffline(own, licence, { fingerprint: 'a' })
  const again = await activateOffline(own, licence, { fingerprint: 'a', days: 200 })
  expect(again).toMatchObject({ activationId: first.activationId, created: false })
  expect((await opened(own, again.file)).claims.exp! * 1000).toBe(timestampDate(again.expiresAt!).getTime())
  expect((await activate(own.products, licence, { fingerprint: 'b' })).created).toBe(true)
  expect((await refusal(activateOffline(own, licence))).code).toBe('limit_reached')
  const { activations, callHome } = await own.licensing.getLicence({
    accountId: own.accountId,
    licenceId: licence.id,
  })
  expect(activations.map(({ fingerprint }) => fingerprint).toSorted()).toEqual(['a', 'b'])
  expect(callHome.map(({ host }) => host)).toContain('island.example.com')

  const { token } = await opened(own, first.file)
  const { activationId } = first
  await own.products.deactivate({ activationId, token })
  expect((await refusal(activateOffline(own, licence))).code).toBe('limit_reached')
  await own.licensing.freeActivation({ ...verbOn(own, licence), activationId })
  expect((await activateOffline(own, licence)).created).toBe(true)
})

test('an offline activation is refused for the same reasons as an activation', async () => {
  const { own, licence } = await given({ domains: ['allowed.example.com'] })
  const elsewhere = await refusal(activateOffline(own, licence))
  expect(elsewhere).toMatchObject({ code: 'licence_refused', members: { reason: 'domain_not_allowed' } })
  await own.licensing.suspendLicence(verbOn(own, licence))
  const suspended = await refusal(activateOffline(own, licence, { host: 'allowed.example.com' }))
  expect(suspended).toMatchObject({ code: 'licence_refused', members: { reason: 'suspended' } })
  for (const key of ['00000-00000-00000-00000-00000', 'nonsense', '']) {
    expect((await refusal(activateOffline(own, { key }))).code).toBe('not_found')
  }
  for (const days of [0, -1, 367]) {
    const refused = await refusal(activateOffline(own, licence, { days }))
    expect(refused).toMatchObject({ code: 'validation_failed', errors: [{ pointer: '/days' }] })
  }
})

test('a key of another application or account is not found, and occupies no slot', async () => {
  const { own, licence } = await given({ maxActivations: 1 })
  for (const foreign of [{ applicationId: newId('app') }, { accountId: newId('acct') }]) {
    expect((await refusal(activateOffline(own, licence, foreign))).code).toBe('not_found')
  }
  expect((await activateOffline(own, licence)).created).toBe(true)
})

test('a retired signing key is published until its last offline token has ended, and then deleted', async () => {
  const { own, licence } = await given()
  const { applicationId, sql } = own
  const { activationId, file } = await activateOffline(own, licence, { days: 90 })
  const { token } = await opened(own, file)
  const kid = decodeProtectedHeader(token).kid!
  const encryption = parseEncryptionKeys(own.settings.encryptionKey)
  await rotateSigningKeys(sql, encryption, { applicationId, leadSeconds: 0, leaked: false })
  const published = async () => (await keysOf(own.products, applicationId)).keys.map((key) => key.kid)
  await sql`update signing_keys set retired_at = now() - interval '89 days' where kid = ${kid}`
  await deleteOldSigningKeys(sql, keptSeconds(daySeconds))
  await eventually(async () => expect(await published()).toHaveLength(2))
  expect(await published()).toContain(kid)
  const refreshed = await own.products.refreshActivation(callOf({ activationId, token } as never))
  expect(refreshed.activationId).toBe(activationId)

  await sql`update signing_keys set offline_until = now() - interval '1 second' where kid = ${kid}`
  await eventually(async () => expect(await published()).not.toContain(kid))
  await deleteOldSigningKeys(sql, keptSeconds(daySeconds))
  expect(await sql`select kid from signing_keys where kid = ${kid}`).toHaveLength(0)
})

test('a shorter file does not shorten how long the key of a longer file is kept', async () => {
  const { own, licence } = await given()
  const long = await activateOffline(own, licence, { days: 300 })
  await activateOffline(own, licence, { days: 3 })
  const [row] = await own.sql<{ offline_until: Date }[]>`
    select offline_until from signing_keys where application_id = ${own.applicationId}`
  expect(row!.offline_until).toEqual(timestampDate(long.expiresAt!))
})

test('a file is never signed with a key that was deleted meanwhile', async () => {
  const { own, licence } = await given()
  const { applicationId, sql } = own
  await activateOffline(own, licence)
  const encryption = parseEncryptionKeys(own.settings.encryptionKey)
  await rotateSigningKeys(sql, encryption, { applicationId, leadSeconds: 0, leaked: true })
  const { token } = await opened(own, (await activateOffline(own, licence)).file)
  const rows = await sql<{ kid: string }[]>`
    select kid from signing_keys where application_id = ${applicationId}`
  expect(rows.map(({ kid }) => kid)).toEqual([decodeProtectedHeader(token).kid])
})
