import type { Licence } from '@licensing/proto/licensing'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import { decodeJwt } from 'jose'
import { afterEach, expect, test } from 'vitest'
import {
  givenLicence,
  raceRounds,
  refusal,
  verbOn,
  atOnce,
  settledAtOnce,
  detailOf,
  history,
  update,
} from '../../test/makers.ts'
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

/** As if the time had come until which deactivated machines keep their slots. */
const endHeld = (licence: Licence) => harness.sql`
  update activations set held_until = now() - interval '1 second'
  where licence_id = ${licence.id} and held_until is not null`

const heldSlots = async (licence: Licence) => {
  const [row] = await harness.sql<{ held: number }[]>`
    select count(*) filter (where held_until is not null)::int as held from activations
    where licence_id = ${licence.id}`
  return row!.held
}

const yesterday = (licence: Licence) => harness.sql`
  update freed_activations set day = day - 1 where licence_id = ${licence.id}`

const full = { code: 'limit_reached' }

async function installed(licence: Licence): Promise<string[]> {
  const { activations, activationsTotal } = await detailOf(harness, licence)
  expect(Number(activationsTotal)).toBe(activations.length)
  return activations.map(({ fingerprint }) => fingerprint).toSorted()
}

test('one licence cannot run on many machines in turn: from the eleventh deactivation of a day, the slot stays occupied', async () => {
  const licence = await givenLicence(harness, { maxActivations: 1 })
  await passThrough(licence, 10)
  const last = await givenActivation(harness.products, licence, { fingerprint: 'last' })
  await harness.products.deactivate(callOf(last))
  const refused = await refusal(activate(other, licence, { fingerprint: 'next' }))
  expect(refused.code).toBe('limit_reached')
  expect(refused.message).toContain('the licence allows 1 activations, and 1 that products deactivated')
  expect(refused.message).toContain(`the next at ${timestampDate(last.expiresAt!).toISOString()}`)
  expect((await history(harness, licence)).filter(({ cause }) => cause === last.activationId)).toEqual([])
  await endHeld(licence)
  expect(await activate(other, licence, { fingerprint: 'next' })).toMatchObject({ created: true })
  expect(await installed(licence)).toEqual(['next'])
  expect((await history(harness, licence)).at(-1)).toMatchObject({
    type: 'activation_freed',
    actor: 'product',
    cause: last.activationId,
  })
})

test('a machine that keeps its slot is deactivated for its product, and takes the slot back when it activates', async () => {
  const licence = await givenLicence(harness, { maxActivations: 1 })
  await passThrough(licence, 10)
  const last = await givenActivation(harness.products, licence, { fingerprint: 'last' })
  await harness.products.deactivate(callOf(last))
  const gone = { code: 'not_found' }
  expect(await refusal(harness.products.refreshActivation(callOf(last)))).toMatchObject(gone)
  expect(await refusal(harness.products.recordCallHome(callOf(last)))).toMatchObject(gone)
  expect(await refusal(harness.products.release(callOf(last)))).toMatchObject(gone)
  expect(await refusal(harness.products.deactivate(callOf(last)))).toMatchObject(gone)
  expect(await installed(licence)).toEqual(['last'])
  const again = await givenActivation(harness.products, licence, { fingerprint: 'last' })
  expect(again.activationId).not.toBe(last.activationId)
  expect(await refusal(harness.products.refreshActivation(callOf(last)))).toMatchObject(gone)
  await harness.products.refreshActivation(callOf(again))
  expect(await heldSlots(licence)).toBe(0)
  expect(await refusal(activate(other, licence, { fingerprint: 'next' }))).toMatchObject(full)
  await harness.products.deactivate(callOf(again))
  expect(await refusal(activate(other, licence, { fingerprint: 'next' }))).toMatchObject(full)
  await endHeld(licence)
  expect(await activate(harness.products, licence, { fingerprint: 'last' })).toMatchObject({ created: true })
})

test('the vendor can free a slot that a deactivated machine keeps', async () => {
  const licence = await givenLicence(harness, { maxActivations: 1 })
  const offline = await activateOffline(harness, licence, { fingerprint: 'offline', days: 366 })
  const { activationId } = offline
  await harness.products.deactivate({ activationId, token: tokenOf(offline) })
  expect(await installed(licence)).toEqual(['offline'])
  expect(await refusal(activate(harness.products, licence))).toMatchObject(full)
  await harness.licensing.freeActivation({ ...verbOn(harness, licence), activationId })
  await activate(harness.products, licence, { fingerprint: 'next' })
  expect(await installed(licence)).toEqual(['next'])
  const freeing = (await history(harness, licence)).filter(({ type }) => type === 'activation_freed')
  expect(freeing).toMatchObject([{ actor: verbOn(harness, licence).actor, cause: activationId }])
  const again = harness.licensing.freeActivation({ ...verbOn(harness, licence), activationId })
  expect((await refusal(again)).code).toBe('not_found')
})

test('an activation that the vendor frees occupies no slot, and does not count among the ten', async () => {
  const licence = await givenLicence(harness, { maxActivations: 1 })
  for (let machine = 0; machine < 15; machine += 1) {
    const { activationId } = await givenActivation(harness.products, licence, { fingerprint: `m-${machine}` })
    await harness.licensing.freeActivation({ ...verbOn(harness, licence), activationId })
  }
  await passThrough(licence, 10)
  expect(await activate(harness.products, licence)).toMatchObject({ created: true })
})

test('a deactivation that nothing valid outlasts does not count among the ten', async () => {
  const licence = await givenLicence(harness, { maxActivations: 1 })
  harness.clock.aheadMs = -25 * 3_600_000
  await passThrough(licence, 15)
  harness.clock.aheadMs = 0
  await passThrough(licence, 10, 'today')
  expect(await activate(harness.products, licence)).toMatchObject({ created: true })
})

test.each([{ maxActivations: 1 }, { maxConcurrent: 1 }, { maxActivations: 1, maxConcurrent: 1 }])(
  'from one slot there is never more than one offline file, however often its machine deactivates it (%o)',
  async (limits) => {
    const licence = await givenLicence(harness, limits)
    const machines = Array.from({ length: 32 }, (_, at) => `machine-${at}`)
    const files: string[] = []
    for (const fingerprint of machines) {
      const made = await activateOffline(harness, licence, { fingerprint, days: 366 }).catch(() => undefined)
      if (!made) continue
      files.push(fingerprint)
      await harness.products.deactivate({ activationId: made.activationId, token: tokenOf(made) })
    }
    expect(files).toEqual(['machine-0'])
    const outcomes = await settledAtOnce<unknown>(32, (at) =>
      at % 2 === 0 ? activate(other, licence) : activateOffline(harness, licence),
    )
    for (const outcome of outcomes) expect(outcome).toMatchObject({ status: 'rejected', reason: full })
  },
)

test('an offline file keeps its slot until it ends, even if the machine got a shorter token later', async () => {
  const licence = await givenLicence(harness, { maxActivations: 1 })
  const offline = await activateOffline(harness, licence, { fingerprint: 'offline', days: 300 })
  await harness.products.deactivate({ activationId: offline.activationId, token: tokenOf(offline) })
  const until = timestampDate(offline.expiresAt!)
  expect(until.getTime() - Date.now()).toBeGreaterThan(299 * 86_400_000)
  const message = `the next at ${until.toISOString()}`
  expect((await refusal(activateOffline(harness, licence))).message).toContain(message)
  const online = await givenActivation(harness.products, licence, { fingerprint: 'offline' })
  await harness.products.deactivate(callOf(online))
  expect((await refusal(activate(harness.products, licence))).message).toContain(message)
  await endHeld(licence)
  expect(await activate(harness.products, licence)).toMatchObject({ created: true })
})

test('a machine with a file that was deactivated and activates again keeps what its file keeps', async () => {
  const licence = await givenLicence(harness, { maxActivations: 1, maxConcurrent: 1 })
  const file = await activateOffline(harness, licence, { fingerprint: 'island', days: 300 })
  const until = timestampDate(file.expiresAt!)
  await harness.products.deactivate({ activationId: file.activationId, token: tokenOf(file) })
  const online = await givenActivation(harness.products, licence, { fingerprint: 'island' })
  expect(timestampDate(online.leaseEndsAt!)).toEqual(until)
  expect(decodeJwt(online.token).exp! * 1000).toBeLessThan(Date.now() + 25 * 3_600_000)
  await harness.products.release(callOf(online))
  await harness.products.deactivate(callOf(online))
  const refused = await refusal(activateOffline(harness, licence, { fingerprint: 'other' }))
  expect(refused.message).toContain(`the next at ${until.toISOString()}`)
  const again = await activateOffline(harness, licence, { fingerprint: 'island', days: 2 })
  expect(again.created).toBe(true)
  await harness.products.deactivate({ activationId: again.activationId, token: tokenOf(again) })
  const { activations } = await detailOf(harness, licence)
  expect(activations.map(({ leaseEndsAt }) => timestampDate(leaseEndsAt!))).toEqual([until])
})

test('an offline file keeps its slot even if the licence had no limit when its machine was deactivated', async () => {
  const licence = await givenLicence(harness)
  const offline = await activateOffline(harness, licence)
  await harness.products.deactivate({ activationId: offline.activationId, token: tokenOf(offline) })
  await update(harness, licence, { restrictions: { maxActivations: 1 } })
  expect(await refusal(activate(harness.products, licence))).toMatchObject(full)
})

test('after a refresh the slot is occupied until the new token ends', async () => {
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

test('the ten are counted for each UTC day', async () => {
  const licence = await givenLicence(harness, { maxActivations: 2 })
  await passThrough(licence, 11)
  expect(await heldSlots(licence)).toBe(1)
  await yesterday(licence)
  await passThrough(licence, 10, 'today')
  expect(await heldSlots(licence)).toBe(1)
  await passThrough(licence, 1, 'last')
  expect(await heldSlots(licence)).toBe(2)
})

test('on a licence without a limit every deactivation frees at once', async () => {
  const licence = await givenLicence(harness)
  await passThrough(licence, 12)
  expect(await installed(licence)).toEqual([])
})

test('if 30 machines deactivate at once through two replicas, exactly ten slots are free', async () => {
  for (let round = 0; round < Math.ceil(raceRounds / 4); round += 1) {
    const licence = await givenLicence(harness, { maxActivations: 30 })
    const grants = await atOnce(30, () => givenActivation(harness.products, licence))
    await Promise.all(grants.map((grant, at) => [harness.products, other][at % 2]!.deactivate(callOf(grant))))
    expect(await heldSlots(licence)).toBe(20)
    const outcomes = await settledAtOnce(30, (at) => activate([harness.products, other][at % 2]!, licence))
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(10)
  }
}, 300_000)

test('a token that is granted during a deactivation does not outlast the occupied slot', async () => {
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
    const [row] = await harness.sql<{ held_until: Date }[]>`
      select held_until from activations where id = ${grant.activationId}`
    if (refreshed.status === 'fulfilled') {
      expect(decodeJwt(refreshed.value.token).exp! * 1000).toBeLessThanOrEqual(row!.held_until.getTime())
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
    create constraint trigger slow_commit after update of held_until on activations deferrable initially deferred
    for each row execute function slow_commit()`
  try {
    await Promise.all(grants.map((grant) => harness.products.deactivate(callOf(grant))))
  } finally {
    await harness.sql`drop trigger slow_commit on activations`
  }
  expect(await heldSlots(licence)).toBe(20)
})
