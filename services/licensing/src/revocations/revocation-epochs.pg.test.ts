import { eventually } from '@licensing/test-support/poll'
import { lockWaits } from '@licensing/test-support/lock-waits'
import { expect, test } from 'vitest'
import { forFile, newVendor, startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { givenLicence, refusal, verbOn } from '../../test/makers.ts'
import { revocationsOf } from '../../test/products.ts'

const harness = await forFile(startHarness)

const listOf = (own: Harness, since?: bigint) =>
  revocationsOf(harness.products, { applicationId: own.applicationId, since })

async function givenRevoked(own: Harness) {
  const licence = await givenLicence(own)
  await own.licensing.revokeLicence(verbOn(own, licence))
  return licence
}

/** The database after a restore, a failover or a restart: the service goes on. */
const beginEpoch = async () => {
  await harness.sql`update event_log_epochs set incarnation = 'of another server'`
  const [row] = await harness.sql<{ epoch: bigint }[]>`select current_epoch() as epoch`
  return row!.epoch
}

test('after the database was restored from a backup while the service runs, versions grow, and a product that read the lost time misses nothing', async () => {
  const own = newVendor(harness)
  const replica = await harness.replica()
  const a = await givenRevoked(own)
  const lost = await givenRevoked(own)
  const seen = await Promise.all(
    [own.products, replica.products].map((products) =>
      revocationsOf(products, { applicationId: own.applicationId }),
    ),
  )
  expect(seen.map(({ version, revoked }) => [version, revoked])).toEqual(
    [1, 2].map(() => [2n, [a.id, lost.id]]),
  )
  await harness.sql`delete from revocations where application_id = ${own.applicationId} and version = 2`
  const epoch = await beginEpoch()
  const [before, other] = [await listOf(own), await listOf(own, 2n)]
  expect(before).toMatchObject({ version: epoch, revoked: [a.id], more: false })
  expect(other).toMatchObject({ version: epoch, revoked: [] })
  const c = await givenRevoked(own)
  for (const products of [own.products, replica.products]) {
    for (const [since, revoked] of [
      [undefined, [a.id, c.id]],
      [2n, [c.id]],
      [epoch, [c.id]],
      [1n, [c.id]],
    ] as const) {
      expect(await revocationsOf(products, { applicationId: own.applicationId, since })).toMatchObject({
        version: epoch + 1n,
        revoked,
      })
    }
  }
  expect(await refusal(listOf(own, epoch + 2n))).toMatchObject({ code: 'validation_failed' })
  // A second time, before anybody has asked for the list.
  await harness.sql`delete from revocations where application_id = ${own.applicationId} and version > 1`
  const next = await beginEpoch()
  const d = await givenRevoked(own)
  expect(await listOf(own, epoch + 1n)).toMatchObject({ version: next + 1n, revoked: [d.id] })
  expect(await listOf(own)).toMatchObject({ version: next + 1n, revoked: [a.id, d.id] })
})

test('an application without revocations has a version that grows too', async () => {
  const own = newVendor(harness)
  const { version } = await listOf(own)
  const epoch = await beginEpoch()
  expect(epoch).toBeGreaterThan(version)
  expect(await listOf(own)).toMatchObject({ version: epoch, revoked: [] })
  await givenRevoked(own)
  expect(await listOf(own, epoch)).toMatchObject({ version: epoch + 1n, more: false })
})

test('a revocation that is under way when an epoch begins is not missed by a product that reads meanwhile', async () => {
  const own = newVendor(harness)
  const [licence, first] = [await givenLicence(own), await givenRevoked(own)]
  const revoking = await harness.sql.reserve()
  await revoking`begin`
  await revoking`update licences set status = 'revoked' where id = ${licence.id}`
  await beginEpoch()
  const reading = listOf(own)
  await eventually(async () => expect(await lockWaits(harness.sql)).toBe(1))
  await revoking`commit`
  revoking.release()
  expect(await reading).toMatchObject({ revoked: [first.id, licence.id] })
})
