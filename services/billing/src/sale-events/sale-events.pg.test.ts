import { fullTest } from '@licensing/test-support/drawn'
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import { eventually } from '@licensing/test-support/poll'
import { describe, expect, test } from 'vitest'
import { sharedHarness } from '../../test/harness.ts'
import {
  bodyHashOf,
  feesOf,
  handled,
  licenceOf,
  licencesOf,
  paymentsOf,
  recordSale,
  saleOccurredAt,
  scope,
  sentTypes,
} from '../../test/shop.ts'
import type { Sale } from '../../test/shop.ts'
import type { Vendor } from '../../test/vendor.ts'

const harness = await sharedHarness()

const ahead = (hours: number) => timestampFromDate(new Date(Date.now() + hours * 3_600_000))
const record = (vendor: Vendor, sale?: Sale) => recordSale(harness, vendor, sale)

/** Records a sale that provisions. @returns its licence */
async function licenceFor(vendor: Vendor, sale: Sale) {
  const { saleEvent } = await record(vendor, sale)
  expect(saleEvent).toMatchObject({ status: 'provisioned' })
  return licenceOf(harness, vendor, saleEvent!.licenceId!)
}

describe('a sale of another shop', () => {
  test('provisions like a checkout, costs no fee, and emits no payment.succeeded', async () => {
    const vendor = await harness.givenVendor({ price: null })
    const { saleEvent, created } = await record(vendor)
    expect(created).toBe(true)
    const { id, licenceId } = saleEvent!
    expect(saleEvent).toMatchObject({ saleId: 'order-1', status: 'provisioned' })
    expect(id).toMatch(/^sale_/)
    expect(await licenceOf(harness, vendor, licenceId!)).toMatchObject({
      status: 'active',
      externalRef: 'cust-1',
    })
    expect(await paymentsOf(harness, vendor)).toMatchObject([
      { saleId: 'order-1', licenceId, amount: 4900n, feeMinor: 0n, occurredAt: saleOccurredAt },
    ])
    expect(await feesOf(harness, vendor)).toEqual([])
    await handled(harness, vendor)
    expect(sentTypes(harness, vendor)).toEqual(['licence.created'])
  })

  test('that is sent again gets the same answer and does nothing twice; with another body it is refused', async () => {
    const vendor = await harness.givenVendor()
    const all = await Promise.all(Array.from({ length: 8 }, () => record(vendor)))
    expect(all.filter(({ created }) => created)).toHaveLength(1)
    expect(new Set(all.map(({ saleEvent }) => saleEvent!.id)).size).toBe(1)
    expect(await licencesOf(harness, vendor)).toHaveLength(1)
    await expect(record(vendor, { amount: 1n })).rejects.toMatchObject({ code: 'idempotency_mismatch' })
    await handled(harness, vendor)
    expect(sentTypes(harness, vendor)).toEqual(['licence.created'])
  })

  const longest = '😀'.repeat(255)
  test.each<[string, Sale, string]>([
    ['an unknown plan', { planId: 'pln_01k00000000000000000000000' }, '/plan_id'],
    ['an unknown price', { priceId: 'price_unknown' }, '/price_id'],
    ['a currency that does not exist', { currency: 'xyz' }, '/currency'],
    ['a time more than 24 hours in the future', { occurredAt: ahead(24.1) }, '/occurred_at'],
    ['an id that is too long', { saleId: `${longest}a` }, '/sale_id'],
    ['an empty id', { saleId: '' }, '/sale_id'],
    ['NUL in its id', { saleId: 'a\0' }, '/sale_id'],
    ['a reference that is too long', { externalRef: `${longest}a` }, '/external_ref'],
    ['an empty reference', { externalRef: '' }, '/external_ref'],
    ['NUL in its reference', { externalRef: 'a\0' }, '/external_ref'],
    ['metadata that is not allowed', { metadata: { entries: { 'a/b': 'x' } } }, '/metadata/a~1b'],
  ])('is refused with %s, and not recorded', async (_, sale, pointer) => {
    const vendor = await harness.givenVendor()
    const refused = { code: 'validation_failed', errors: [{ pointer }] }
    await expect(record(vendor, sale)).rejects.toMatchObject(refused)
    expect(await paymentsOf(harness, vendor)).toEqual([])
    expect(await record(vendor)).toMatchObject({ created: true })
  })

  test('may have references as long as the contract allows, also of characters outside the basic plane, and a time up to 24 hours in the future', async () => {
    const vendor = await harness.givenVendor()
    const sale = { saleId: longest, externalRef: longest, occurredAt: ahead(23.9) }
    expect(await licenceFor(vendor, sale)).toMatchObject({ externalRef: longest })
  })

  test('that was recorded in a currency that does not exist is answered and listed as before', async () => {
    const vendor = await harness.givenVendor()
    await record(vendor)
    const sale = { currency: 'xyz' }
    await harness.sql`
      update sale_events set currency = 'xyz', body_hash = ${bodyHashOf(sale)}
      where application_id = ${vendor.applicationId}`
    expect(await record(vendor, sale)).toMatchObject({ created: false, saleEvent: { status: 'provisioned' } })
    const page = { ...scope(vendor), beforeId: '', limit: 10 }
    expect(await harness.billing.listSaleEvents(page)).toMatchObject({ saleEvents: [{ currency: 'xyz' }] })
  })

  test('lasts as long as its price says, unless it gives its own end', async () => {
    const vendor = await harness.givenVendor({ price: { periodMonths: 13 } })
    const { expiresOn } = await licenceFor(vendor, { priceId: vendor.priceId })
    expect(timestampDate(expiresOn!)).toEqual(new Date(Date.UTC(2027, 1, 28, 9)))
    const said = timestampFromDate(new Date(Date.UTC(2030, 0, 1)))
    const own = { saleId: 'order-2', externalRef: 'cust-2', expiresOn: said }
    expect(await licenceFor(vendor, own)).toMatchObject({ expiresOn: said })
  })

  test('that would end past the year 9999 by its price has to give its own end', async () => {
    const at = timestampFromDate(new Date(Date.UTC(2026, 9, 31, 23, 59, 59, 999)))
    const latest = await harness.givenVendor({ price: { periodMonths: (9999 - 2026) * 12 } })
    const { expiresOn } = await licenceFor(latest, { priceId: latest.priceId, occurredAt: at })
    expect(timestampDate(expiresOn!).toISOString()).toBe('9999-10-31T23:59:59.999Z')
    const vendor = await harness.givenVendor({ price: { periodMonths: (9999 - 2025) * 12 } })
    const sale = { priceId: vendor.priceId, occurredAt: at }
    const refused = { code: 'validation_failed', errors: [{ pointer: '/expires_on' }] }
    await expect(record(vendor, sale)).rejects.toMatchObject(refused)
    expect(await paymentsOf(harness, vendor)).toEqual([])
    const said = timestampFromDate(new Date(Date.UTC(9999, 0, 1)))
    expect(await licenceFor(vendor, { ...sale, expiresOn: said })).toMatchObject({ expiresOn: said })
  })

  test('on a retired plan is reported as failed, once, and provisioned when it is sent again after the restore', async () => {
    const vendor = await harness.givenVendor()
    await harness.changePlan(vendor.planId, 'retired')
    const failed = await record(vendor)
    expect(failed).toMatchObject({ created: true, saleEvent: { status: 'provision_failed' } })
    expect(failed.saleEvent!.licenceId).toBeUndefined()
    expect(await record(vendor)).toMatchObject({ created: false, saleEvent: { status: 'provision_failed' } })
    await harness.changePlan(vendor.planId, 'active')
    expect(await record(vendor)).toMatchObject({ created: false, saleEvent: { status: 'provisioned' } })
    await handled(harness, vendor)
    expect(sentTypes(harness, vendor)).toEqual(['licence.created', 'payment.provision_failed'])
    expect(harness.events.of(vendor.accountId)).toContainEqual({
      type: 'payment.provision_failed',
      session_id: failed.saleEvent!.id,
      plan_id: vendor.planId,
      amount: 4900,
      currency: 'usd',
      reason: 'plan_archived',
    })
  })

  test('belongs to its application: another application may use the same id', async () => {
    const first = await record(await harness.givenVendor())
    const second = await record(await harness.givenVendor(), { amount: 1n })
    expect(second.created).toBe(true)
    expect(second.saleEvent!.licenceId).not.toBe(first.saleEvent!.licenceId)
  })

  fullTest(
    'is unavailable while licensing is unavailable, and not half done: licensing may still provision it, and no licence stays without its sale',
    async () => {
      const vendor = await harness.givenVendor()
      harness.licensingProcess.freeze()
      try {
        await expect(record(vendor)).rejects.toMatchObject({ code: 'unavailable' })
      } finally {
        harness.licensingProcess.resume()
      }
      // Licensing, which was suspended, handles the call when it continues.
      await eventually(async () => expect(await licencesOf(harness, vendor)).toHaveLength(1))
      // The lease of the call ends.
      await harness.sql`update purchases set send_at = now() where account_id = ${vendor.accountId}`
      await handled(harness, vendor)
      const [licence] = await licencesOf(harness, vendor)
      expect(await paymentsOf(harness, vendor)).toMatchObject([{ saleId: 'order-1', licenceId: licence!.id }])
      expect(await record(vendor)).toMatchObject({ created: false, saleEvent: { licenceId: licence!.id } })
      expect(await licencesOf(harness, vendor)).toHaveLength(1)
      expect(sentTypes(harness, vendor)).toEqual(['licence.created'])
    },
  )
})
