import type { Licence } from '@licensing/proto/licensing'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import { decodeJwt } from 'jose'
import { afterEach, expect, test } from 'vitest'
import { givenLicence, raceRounds, refusal, verbOn, atOnce, settledAtOnce } from '../../test/makers.ts'
import { deleteFreedPlaces } from './activation-queries.ts'
import { forFile, startHarness } from '../../test/harness.ts'
import { activate, callOf, givenActivation, activateOffline, tokenOf } from '../../test/products.ts'

const harness = await forFile(startHarness)
const { products: other } = await harness.replica()
afterEach(() => {
  harness.clock.aheadMs = 0
})

/** Machines that activate and deactivate, one after the other. */
async function passThrough(licence: Licence, machines: number, prefix = 'passing'): Promise<void> {
  for (let machine = 0; machine < machines; machine += 1) {
    const grant = await givenActivation(harness.products, licence, { fingerprint: `${prefix}-${machine}` })
    await harness.products.deactivate(callOf(grant))
  }
}

/** Lets the tokens of freed activations end. */
const endTokens = (licence: Licence) => harness.sql`
  update freed_places set token_ends_at = now() - interval '1 second' where licence_id = ${licence.id}`

const freedRows = async (licence: Licence) => {
  const [row] = await harness.sql<{ rows: number; held: number }[]>`
    select count(*)::int as rows, count(*) filter (where takes_place)::int as held
    from freed_places where licence_id = ${licence.id}`
  return row!
}

test('one licence cannot run on many machines in turn: from the eleventh deactivation of a day, the place stays occupied', async () => {
  const licence = await givenLicence(harness, { maxActivations: 1 })
  await passThrough(licence, 10)
  const last = await givenActivation(harness.products, licence, { fingerprint: 'last' })
  await harness.products.deactivate(callOf(last))
  const refused = await refusal(activate(other, licence, { fingerprint: 'next' }))
  expect(refused.code).toBe('limit_reached')
  expect(refused.message).toContain('the licence allows 1 activations, and 1 that products deactivated')
  expect(refused.message).toContain(`the next at ${timestampDate(last.expiresAt!).toISOString()}`)
  await endTokens(licence)
  expect(await activate(other, licence, { fingerprint: 'next' })).toMatchObject({ created: true })
})

test('a machine that still occupies a place can activate again, and occupies it again when it deactivates', async () => {
  const licence = await givenLicence(harness, { maxActivations: 1 })
  await passThrough(licence, 11)
  const again = await activate(harness.products, licence, { fingerprint: 'passing-10' })
  expect(again.created).toBe(true)
  expect(await freedRows(licence)).toEqual({ rows: 10, held: 0 })
  expect((await refusal(activate(other, licence, { fingerprint: 'next' }))).code).toBe('limit_reached')
  await harness.products.deactivate(callOf(again.grant!))
  expect((await refusal(activate(other, licence, { fingerprint: 'next' }))).code).toBe('limit_reached')
})

test('an activation that the vendor frees occupies no place, and does not count among the ten', async () => {
  const licence = await givenLicence(harness, { maxActivations: 1 })
  for (let machine = 0; machine < 15; machine += 1) {
    const { activationId } = await givenActivation(harness.products, licence, { fingerprint: `m-${machine}` })
    await harness.licensing.freeActivation({ ...verbOn(harness, licence), activationId })
  }
  expect(await freedRows(licence)).toEqual({ rows: 0, held: 0 })
  await passThrough(licence, 10)
  expect(await activate(harness.products, licence)).toMatchObject({ created: true })
})

test('an offline file occupies its place until it ends, even if the machine got a shorter token later', async () => {
  const licence = await givenLicence(harness, { maxActivations: 1 })
  await passThrough(licence, 10)
  const offline = await activateOffline(harness, licence, { fingerprint: 'offline', days: 300 })
  await harness.products.deactivate({ activationId: offline.activationId, token: tokenOf(offline) })
  const until = timestampDate(offline.expiresAt!)
  expect(until.getTime() - Date.now()).toBeGreaterThan(299 * 86_400_000)
  const message = `the next at ${until.toISOString()}`
  expect((await refusal(activateOffline(harness, licence))).message).toContain(message)
  const online = await givenActivation(harness.products, licence, { fingerprint: 'offline' })
  await harness.products.deactivate(callOf(online))
  expect((await refusal(activate(harness.products, licence))).message).toContain(message)
})

test('after a refresh the place is occupied until the new token ends', async () => {
  const licence = await givenLicence(harness, { maxActivations: 1 })
  await passThrough(licence, 10)
  const grant = await givenActivation(harness.products, licence)
  harness.clock.aheadMs = 12 * 3_600_000
  const renewed = await harness.products.refreshActivation(callOf(grant))
  await harness.products.recordCallHome(callOf(renewed))
  await harness.products.deactivate(callOf(grant))
  expect((await refusal(activate(harness.products, licence))).message).toContain(
    `the next at ${timestampDate(renewed.expiresAt!).toISOString()}`,
  )
})

test('the ten are counted for each day, and earlier freed places are deleted when they no longer count', async () => {
  const licence = await givenLicence(harness, { maxActivations: 2 })
  await passThrough(licence, 11)
  await harness.sql`
    update freed_places set freed_at = freed_at - interval '1 day' where licence_id = ${licence.id}`
  await passThrough(licence, 10, 'today')
  expect(await freedRows(licence)).toEqual({ rows: 21, held: 1 })
  await deleteFreedPlaces(harness.sql, 1_000)
  expect(await freedRows(licence)).toEqual({ rows: 11, held: 1 })
  await endTokens(licence)
  await deleteFreedPlaces(harness.sql, 1_000)
  // Today's ten stay counted although their tokens have ended.
  expect(await freedRows(licence)).toEqual({ rows: 10, held: 0 })
})

test('a licence without a limit has no freed places', async () => {
  const licence = await givenLicence(harness)
  await passThrough(licence, 12)
  expect(await freedRows(licence)).toEqual({ rows: 0, held: 0 })
})

test('if 30 machines deactivate at once through two replicas, exactly ten places are free', async () => {
  for (let round = 0; round < Math.ceil(raceRounds / 4); round += 1) {
    const licence = await givenLicence(harness, { maxActivations: 30 })
    const grants = await atOnce(30, () => givenActivation(harness.products, licence))
    await Promise.all(grants.map((grant, at) => [harness.products, other][at % 2]!.deactivate(callOf(grant))))
    expect(await freedRows(licence)).toEqual({ rows: 30, held: 20 })
    const outcomes = await settledAtOnce(30, (at) => activate([harness.products, other][at % 2]!, licence))
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(10)
  }
}, 300_000)

test('a token that is granted during a deactivation does not outlast the occupied place', async () => {
  const licence = await givenLicence(harness, { maxActivations: 1_000 })
  await passThrough(licence, 10)
  for (let round = 0; round < raceRounds * 2; round += 1) {
    const fingerprint = newId('evt')
    const grant = await givenActivation(harness.products, licence, { fingerprint })
    // The new token ends later than the one before.
    harness.clock.aheadMs += 60_000
    const [refreshed] = await Promise.allSettled([
      other.refreshActivation(callOf(grant)),
      harness.products.deactivate(callOf(grant)),
    ])
    const [row] = await harness.sql<{ token_ends_at: Date }[]>`
      select token_ends_at from freed_places where activation_id = ${grant.activationId}`
    if (refreshed.status === 'fulfilled') {
      expect(decodeJwt(refreshed.value.token).exp! * 1000).toBeLessThanOrEqual(row!.token_ends_at.getTime())
    } else {
      expect(refreshed.reason).toMatchObject({ code: 'not_found' })
    }
  }
}, 300_000)

test('30 machines that deactivate at once share commits, so that none is refused on a slow database', async () => {
  const licence = await givenLicence(harness, { maxActivations: 30 })
  const grants = await atOnce(30, () => givenActivation(harness.products, licence))
  // Each commit takes 300 ms, and keeps the licence locked for so long.
  await harness.sql`
    create function slow_commit() returns trigger language plpgsql as $$ begin
      if current_setting('test.is_slowed', true) is distinct from 'yes' then
        perform set_config('test.is_slowed', 'yes', true), pg_sleep(0.3);
      end if;
      return null;
    end $$`
  await harness.sql`
    create constraint trigger slow_commit after insert on freed_places deferrable initially deferred
    for each row execute function slow_commit()`
  try {
    await Promise.all(grants.map((grant) => harness.products.deactivate(callOf(grant))))
  } finally {
    await harness.sql`drop trigger slow_commit on freed_places`
  }
  expect(await freedRows(licence)).toEqual({ rows: 30, held: 20 })
})
