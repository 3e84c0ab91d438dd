import { timestampDate } from '@bufbuild/protobuf/wkt'
import { closedSets } from '@licensing/proto/closed-sets'
import { keyed } from '@licensing/changes/testing/keyed'
import { expect, test } from 'vitest'
import { forFile, startHarness } from '../../test/harness.ts'
import { detailOf, givenLicence, givenLicenceIn, history, refusal, verbOn } from '../../test/makers.ts'
import { activateOffline, givenActivation } from '../../test/products.ts'
import { codes } from '../../test/races.ts'

const harness = await forFile(startHarness)
const { customers, accountId, applicationId, sql } = harness
const replica = await harness.replica()

const link = (licence: { id: string }, minutes = 60) =>
  customers.createCustomerSession({ accountId, licenceId: licence.id, minutes })
const find = (token: string, via = customers) => via.findCustomerSession({ token })
const signIn = (licenceKey: string, inApplication = applicationId) =>
  customers.signInWithKey({ applicationId: inApplication, licenceKey })
const end = (licence: { id: string }) => customers.endCustomerSessions({ accountId, licenceId: licence.id })
const free = (licence: { id: string }, activationId: string, maxPerDay = 3, via = customers) =>
  via.freeCustomerActivation({ accountId, licenceId: licence.id, activationId, maxPerDay })

test('a session is found by its token on every replica, with its licence, end and return address', async () => {
  const licence = await givenLicence(harness)
  const returnUrl = 'https://shop.example.com/?a=1#b'
  const before = Date.now()
  const { token, expiresAt } = await customers.createCustomerSession({
    accountId,
    licenceId: licence.id,
    minutes: 5,
    returnUrl,
  })
  expect(token).toMatch(/^cst_[A-Za-z0-9_-]+$/)
  const lifeMs = timestampDate(expiresAt!).getTime() - before
  expect(Math.abs(lifeMs - 5 * 60_000)).toBeLessThan(10_000)
  for (const via of [customers, replica.customers]) {
    expect(await find(token, via)).toMatchObject({
      session: { accountId, applicationId, licenceId: licence.id, expiresAt, returnUrl },
    })
  }
})

test('a session of every status is found, and of another account there is none', async () => {
  for (const status of closedSets.licenceStatus) {
    const { token } = await link(await givenLicenceIn(harness, status))
    expect((await find(token)).session, status).toBeDefined()
  }
  const licence = await givenLicence(harness)
  const foreign = { accountId: 'acct_other', licenceId: licence.id }
  expect(await refusal(customers.createCustomerSession({ ...foreign, minutes: 60 }))).toMatchObject({
    code: 'not_found',
  })
  expect(await refusal(customers.endCustomerSessions(foreign))).toMatchObject({ code: 'not_found' })
  for (const minutes of [4, 1_441]) {
    expect(await refusal(link(licence, minutes))).toMatchObject({ errors: [{ pointer: '/minutes' }] })
  }
})

test('a text that was never a session is not genuine: shortened, changed, of other bytes, or a secret of a column', async () => {
  const { token } = await link(await givenLicence(harness))
  await harness.products.getSigningKeys({ applicationId })
  const [row] = await sql<{ key: Buffer }[]>`select private_key as key from signing_keys limit 1`
  const changed = `${token.slice(0, -4)}${token.endsWith('AAAA') ? 'BBBB' : 'AAAA'}`
  const column = `cst_${row!.key.toString('base64url')}`
  const sameBytes = [`${token}=`, `${token}.`, token.replace('_', '_ ')]
  const shortened = ['', 'cst_', 'x', token.slice(4), token.slice(0, -1)]
  for (const wrong of [...shortened, changed, column, 'cst_☂', ...sameBytes]) {
    expect(await find(wrong), wrong).toMatchObject({ hasEnded: false })
    expect((await find(wrong)).session).toBeUndefined()
  }
})

test('after its time, and after all sessions were ended, a session has ended; one that begins then counts', async () => {
  const licence = await givenLicence(harness)
  const { token } = await link(licence)
  const byKey = await signIn(licence.key)
  await end(licence)
  for (const each of [token, byKey.token]) {
    expect(await find(each, replica.customers)).toEqual(expect.objectContaining({ hasEnded: true }))
  }
  // In the same millisecond too.
  for (let round = 0; round < 20; round += 1) {
    const before = await link(licence)
    await end(licence)
    const after = await link(licence)
    expect((await find(before.token)).session).toBeUndefined()
    expect((await find(after.token)).session).toBeDefined()
  }
})

test('sessions that begin while all are ended either count or have ended, and none counts that was answered before', async () => {
  const licence = await givenLicence(harness)
  const earlier = await Promise.all(Array.from({ length: 5 }, () => link(licence)))
  await Promise.all([
    ...Array.from({ length: 5 }, () => link(licence)),
    end(licence),
    replica.customers.endCustomerSessions({ accountId, licenceId: licence.id }),
  ])
  for (const { token } of earlier) expect(await find(token)).toMatchObject({ hasEnded: true })
  expect((await find((await link(licence)).token)).session).toBeDefined()
})

test('a key signs in only for its application, however it is written, and an unknown or malformed one is not found', async () => {
  const licence = await givenLicenceIn(harness, 'revoked')
  const { token } = await signIn(` ${licence.key.toLowerCase().replaceAll('-', ' ')} `)
  expect((await find(token)).session).toMatchObject({ licenceId: licence.id })
  for (const key of ['', 'x', '00000-00000-00000-00000-00000', '\0'])
    expect(await refusal(signIn(key))).toMatchObject({ code: 'not_found' })
  expect(await refusal(signIn(licence.key, 'app_other'))).toMatchObject({ code: 'not_found' })
})

test('a repetition with the same Idempotency-Key gets the end of the session without its token', async () => {
  const licence = await givenLicence(harness)
  const once = () => keyed(`/v1/licences/${licence.id}/customer-sessions`, () => link(licence), { key: 'k' })
  const first = await once()
  const second = await once()
  expect(first.value.token).toMatch(/^cst_/)
  expect(second).toMatchObject({ replayed: true, value: { token: '', expiresAt: first.value.expiresAt } })
})

test('a customer frees at most so many machines a day, however many calls arrive at once', async () => {
  const licence = await givenLicence(harness)
  const machines = await Promise.all(
    Array.from({ length: 20 }, () => givenActivation(harness.products, licence)),
  )
  const outcomes = await Promise.allSettled(
    machines.map(({ activationId }, at) =>
      free(licence, activationId, 3, (at % 2 === 0 ? harness : replica).customers),
    ),
  )
  expect(codes(outcomes).toSorted()).toEqual([
    ...Array<string>(3).fill('ok'),
    ...Array<string>(17).fill('quota_exceeded'),
  ])
  expect((await detailOf(harness, licence)).activationsTotal).toBe(17n)
  expect(await customers.getCustomerLicence({ accountId, licenceId: licence.id })).toMatchObject({
    freedToday: 3,
  })
  const left = machines.find((_, at) => outcomes[at]!.status === 'rejected')!
  expect(await refusal(free(licence, left.activationId))).toMatchObject({
    code: 'quota_exceeded',
    members: { limit: 3 },
  })
  await sql`update freed_activations set day = day - 1 where licence_id = ${licence.id}`
  expect(await customers.getCustomerLicence({ accountId, licenceId: licence.id })).toMatchObject({
    freedToday: 0,
  })
  await free(licence, left.activationId)
  const entries = (await history(harness, licence)).filter(({ type }) => type === 'activation_freed')
  expect(entries).toHaveLength(4)
  expect(entries.at(-1)).toMatchObject({ actor: 'customer', cause: left.activationId })
})

test('an activation that is unknown, freed or of another licence is not found and counts nothing; nor does a product', async () => {
  const [licence, other] = [await givenLicence(harness), await givenLicence(harness)]
  const machine = await givenActivation(harness.products, licence)
  const foreign = await givenActivation(harness.products, other)
  await free(licence, machine.activationId)
  for (const id of [machine.activationId, foreign.activationId, 'act_x', '']) {
    expect(await refusal(free(licence, id)), id).toMatchObject({ code: 'not_found' })
  }
  expect(await customers.getCustomerLicence({ accountId, licenceId: licence.id })).toMatchObject({
    freedToday: 1,
  })
  expect(await refusal(free(other, foreign.activationId, 0))).toMatchObject({ code: 'quota_exceeded' })
  expect(await detailOf(harness, other)).toMatchObject({ activationsTotal: 1n })
})

test('a machine with a licence file is refused with the end of its file, and can be removed after that', async () => {
  const licence = await givenLicence(harness)
  const { activationId, expiresAt } = await activateOffline(harness, licence)
  const until = timestampDate(expiresAt!).toISOString()
  expect(await refusal(free(licence, activationId))).toMatchObject({
    code: 'conflict',
    message: expect.stringContaining(until.slice(0, 19)) as string,
  })
  await sql`update activations set offline_until = now() where id = ${activationId}`
  await free(licence, activationId)
})

test('the licence is answered whatever its status is, and of another account it is not found', async () => {
  for (const status of closedSets.licenceStatus) {
    const licence = await givenLicenceIn(harness, status)
    const found = await customers.getCustomerLicence({ accountId, licenceId: licence.id })
    expect(found.detail!.licence).toMatchObject({ id: licence.id, status })
    const isSold = status === 'expired' || status === 'downgraded'
    expect(found.purchaseRef !== undefined, status).toBe(isSold)
  }
  const { licenceId } = verbOn(harness, await givenLicence(harness))
  const foreign = customers.getCustomerLicence({ accountId: 'acct_other', licenceId })
  expect(await refusal(foreign)).toMatchObject({ code: 'not_found' })
})
