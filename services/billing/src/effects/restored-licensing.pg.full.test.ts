import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { connect } from '@licensing/database/connect'
import { ServiceError } from '@licensing/grpc/errors'
import { eventually } from '@licensing/test-support/poll'
import { sharedPostgresUrl } from '@licensing/test-support/shared-servers'
import { register } from 'prom-client'
import { afterAll, expect, test, vi } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import {
  applicationFeesOf,
  givenSold,
  handled,
  licencesOf,
  paymentsOf,
  recordSale,
  scope,
} from '../../test/shop.ts'
import { act, alertsOf, expectPaidPeriod, givenSubscribed } from '../../test/subscribed.ts'
import type { Vendor } from '../../test/vendor.ts'
import type { EffectRow } from './effect-queries.ts'
import { recordResults } from './record-results.ts'
import { askLicensingEpoch } from './resend-effects.ts'

const harness = await startHarness()
afterAll(() => harness[Symbol.asyncDispose]())

const admin = connect(sharedPostgresUrl(), { name: 'billing-test', max: 1 })
afterAll(() => admin.end({ timeout: 5 }))

const [{ name: licensingDatabase }] = await harness.licensingSql<[{ name: string }]>`
  select current_database() as name`

/** Runs statements while nobody is connected to licensing's database. */
async function whileUnused(work: () => Promise<unknown>): Promise<void> {
  await harness.licensingProcess.stop()
  await admin`alter database ${admin(licensingDatabase)} allow_connections false`
  await admin`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${licensingDatabase}`
  await eventually(async () => {
    const others = await admin`select from pg_stat_activity where datname = ${licensingDatabase}`
    expect(others.count).toBe(0)
  })
  await work()
  await harness.licensingProcess.start()
}

/** A backup of licensing's database, as it is now. */
async function backUp() {
  const backup = `${licensingDatabase}_backup`
  await whileUnused(async () => {
    await admin`create database ${admin(backup)} template ${admin(licensingDatabase)}`
    await admin`alter database ${admin(licensingDatabase)} allow_connections true`
  })
  const restore = () =>
    whileUnused(async () => {
      await admin`drop database ${admin(licensingDatabase)} with (force)`
      await admin`alter database ${admin(backup)} rename to ${admin(licensingDatabase)}`
    })
  return { restore }
}

const sentBy = (vendor: Vendor) =>
  harness.events
    .raw(vendor.accountId)
    .filter(({ payload }) =>
      ['paymentSucceeded', 'refundProcessed', 'vendorAlert'].includes(payload.case ?? ''),
    )

test('after licensing was restored from a backup, the sale, refund, renewal and shop sale that it lost come back, and no event of them is sent twice', async () => {
  const subscribed = await givenSubscribed(harness)
  const vendor = await harness.givenVendor()
  await handled(harness, subscribed.vendor)
  const { restore } = await backUp()

  const kept = await givenSold(harness, vendor, { externalRef: 'kept' })
  const refunded = await givenSold(harness, vendor, { externalRef: 'refunded' })
  await harness.simulator.control('refund', { charge: refunded.charge })
  await recordSale(harness, vendor, { externalRef: 'of-a-shop' })
  await act(harness, subscribed, 'renew')
  const vendors = [vendor, subscribed.vendor]
  for (const each of vendors) await handled(harness, each)
  const sentBefore = vendors.map(sentBy)

  await restore()
  await eventually(() => askLicensingEpoch(harness.deps))
  const ofVendor = async () =>
    (await licencesOf(harness, vendor)).map(({ externalRef, status }) => `${externalRef} ${status}`).sort()
  await eventually(
    async () => expect(await ofVendor()).toEqual(['kept active', 'of-a-shop active', 'refunded revoked']),
    { timeoutMs: 60_000 },
  )
  await eventually(() => expectPaidPeriod(harness, subscribed), { timeoutMs: 60_000 })
  for (const each of vendors) await handled(harness, each)
  expect(vendors.map(sentBy)).toEqual(sentBefore)
  // The payment names the licence that exists.
  const licence = (await licencesOf(harness, vendor)).find(({ externalRef }) => externalRef === 'kept')!
  const payment = (await paymentsOf(harness, vendor)).find(({ sessionId }) => sessionId === kept.session.id)
  expect(payment!.licenceId).toBe(licence.id)
  expect(await applicationFeesOf(harness, kept.charge)).toMatchObject([{ amount_refunded: 0 }])
})

/** Licensing loses all purchases, and billing does not notice a new epoch. */
const losePurchases = () =>
  harness.licensingSql`truncate provisions, purchase_effects, purchases, licences cascade`

/** The warnings and the count of effects whose purchase licensing did not know, from now on. */
async function watchLost(kind: string) {
  const warnings = vi.spyOn(harness.deps.log, 'warn')
  const count = async () => {
    const { values } = await register.getSingleMetric('purchase_effects_lost_total')!.get()
    return values.find(({ labels }) => labels['kind'] === kind)?.value ?? 0
  }
  const before = await count()
  return {
    expectOne: async (vendor: Vendor, purchase: string) => {
      const about = { account: vendor.accountId, purchase, kind }
      const logged = warnings.mock.calls.filter(([fields]) => 'kind' in (fields as object))
      expect(logged.map(([fields]) => fields)).toEqual([about])
      expect((await count()) - before).toBe(1)
    },
    [Symbol.dispose]: () => warnings.mockRestore(),
  }
}

test('a renewal whose payment licensing does not know waits until the payment was sent again, is logged and counted, and raises one alert', async () => {
  const subscribed = await givenSubscribed(harness)
  const { vendor, session } = subscribed
  await handled(harness, vendor)
  using lost = await watchLost('renewed')
  await losePurchases()
  await act(harness, subscribed, 'renew')
  await handled(harness, vendor)
  const [licence] = await licencesOf(harness, vendor)
  expect(licence).toMatchObject({ status: 'active' })
  await expectPaidPeriod(harness, { ...subscribed, licenceId: licence!.id })
  expect(alertsOf(harness, vendor)).toEqual(['renewal_without_licence'])
  await lost.expectOne(vendor, session.id)
})

test('a replica that learns late that a purchase was lost raises no second alert', async () => {
  const subscribed = await givenSubscribed(harness)
  const { vendor, session } = subscribed
  await handled(harness, vendor)
  await losePurchases()
  await act(harness, subscribed, 'renew')
  await handled(harness, vendor)
  const rows = await harness.sql<EffectRow[]>`
    select position, purchase_ref, account_id, application_id, kind, cause, false as sent_again
    from purchase_effects where purchase_ref = ${session.id} and kind = 'renewed'`
  const result = { lost: new ServiceError('not_found', 'no licence') }
  const late = rows.map((effect) => ({ effect, result }))
  const leased = [{ purchase_ref: session.id, attempts: 0, is_late: false }]
  await harness.deps.change((tx) => recordResults(tx, leased, late))
  await handled(harness, vendor)
  expect(alertsOf(harness, vendor)).toEqual(['renewal_without_licence'])
})

test('a refund whose payment licensing does not know is applied after the payment, and is logged and counted', async () => {
  const vendor = await harness.givenVendor()
  const sold = await givenSold(harness, vendor)
  await handled(harness, vendor)
  using lost = await watchLost('refunded')
  await losePurchases()
  await harness.simulator.control('refund', { charge: sold.charge })
  await handled(harness, vendor)
  expect(await licencesOf(harness, vendor)).toMatchObject([{ status: 'revoked' }])
  expect(alertsOf(harness, vendor)).toEqual([])
  await lost.expectOne(vendor, sold.session.id)
})

test('an operator sends effects again since a time, of one account, and licensing applies none twice', async () => {
  const [vendor, other] = [await harness.givenVendor(), await harness.givenVendor()]
  for (const each of [vendor, other]) {
    await givenSold(harness, each)
    await handled(harness, each)
  }
  const before = await licencesOf(harness, vendor)
  const since = timestampFromDate(new Date(Date.now() - 3_600_000))
  const again = async (accountId: string) =>
    Number((await harness.operations.resendEffects({ since, accountId })).effects)
  expect(await again(vendor.accountId)).toBe(1)
  const stateOf = async ({ accountId }: Vendor) => {
    const [row] = await harness.sql<{ sent_again: boolean; state: string }[]>`
      select sent_again, state from purchase_effects where account_id = ${accountId}`
    return row
  }
  await eventually(async () => expect(await stateOf(vendor)).toEqual({ sent_again: true, state: 'done' }), {
    timeoutMs: 60_000,
  })
  expect(await stateOf(other)).toEqual({ sent_again: false, state: 'done' })
  expect(await licencesOf(harness, vendor)).toEqual(before)
  expect(sentBy(vendor).map(({ payload }) => payload.case)).toEqual(['paymentSucceeded'])
  expect(await harness.billing.listPayments({ ...scope(vendor), limit: 10, beforeId: '' })).toMatchObject({
    payments: [{ licenceId: before[0]!.id }],
  })
})
