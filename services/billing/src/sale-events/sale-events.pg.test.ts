import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import { eventually } from '@licensing/test-support/poll'
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import type { Vendor } from '../../test/vendor.ts'
import { feesOf, handled, licenceOf, licencesOf, paymentsOf, scope, sentTypes } from '../../test/shop.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

const occurredAt = timestampFromDate(new Date(Date.UTC(2026, 0, 31, 9)))
const hour = 3_600_000

type Sale = Partial<Parameters<Harness['billing']['recordSaleEvent']>[0]>

function bodyOf(vendor: Vendor, sale: Sale) {
  return {
    saleId: 'order-1',
    externalRef: 'cust-1',
    amount: 4900n,
    currency: 'usd',
    ...('priceId' in sale ? {} : { planId: vendor.planId }),
    ...sale,
  }
}

const bodyHashOf = (vendor: Vendor, sale: Sale) =>
  createHash('sha256')
    .update(
      JSON.stringify(bodyOf(vendor, sale), (_, value: unknown) =>
        typeof value === 'bigint' ? String(value) : value,
      ),
    )
    .digest()

const record = (vendor: Vendor, sale: Sale = {}) =>
  harness.billing.recordSaleEvent({
    ...scope(vendor),
    occurredAt,
    bodyHash: bodyHashOf(vendor, sale),
    ...bodyOf(vendor, sale),
  })

describe('a sale of another shop', () => {
  test('provisions like a checkout, costs no fee, and emits no payment.succeeded', async () => {
    const vendor = await harness.givenVendor({ price: null })
    const { saleEvent, created } = await record(vendor)
    expect(created).toBe(true)
    expect(saleEvent).toMatchObject({
      id: expect.stringMatching(/^sale_/),
      saleId: 'order-1',
      status: 'provisioned',
    })
    expect(await licenceOf(harness, vendor, saleEvent!.licenceId!)).toMatchObject({
      status: 'active',
      externalRef: 'cust-1',
    })
    expect(await paymentsOf(harness, vendor)).toMatchObject([
      { saleId: 'order-1', licenceId: saleEvent!.licenceId, amount: 4900n, feeMinor: 0n, occurredAt },
    ])
    expect(await feesOf(harness, vendor)).toEqual([])
    await handled(harness)
    await eventually(() => expect(sentTypes(harness, vendor)).toEqual(['licence.created']))
  })

  test('that is sent again gets the same answer and does nothing twice; with another body it is refused', async () => {
    const vendor = await harness.givenVendor()
    const [first, ...others] = await Promise.all(Array.from({ length: 8 }, () => record(vendor)))
    const all = [first!, ...others]
    expect(all.filter(({ created }) => created)).toHaveLength(1)
    expect(new Set(all.map(({ saleEvent }) => saleEvent!.id)).size).toBe(1)
    expect(await licencesOf(harness, vendor)).toHaveLength(1)
    await expect(record(vendor, { amount: 1n })).rejects.toMatchObject({ code: 'idempotency_mismatch' })
    await handled(harness)
    expect(sentTypes(harness, vendor)).toEqual(['licence.created'])
  })

  test('is refused in a currency that does not exist; one recorded before in such a currency is answered as before', async () => {
    const vendor = await harness.givenVendor()
    const sale = { saleId: 'order-x', currency: 'xyz' }
    await expect(record(vendor, sale)).rejects.toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/currency', message: expect.stringContaining('ISO 4217') }],
    })
    await record(vendor, { saleId: 'order-x' })
    await harness.sql`
      update sale_events set currency = 'xyz', body_hash = ${bodyHashOf(vendor, sale)}
      where application_id = ${vendor.applicationId}`
    expect(await record(vendor, sale)).toMatchObject({ created: false, saleEvent: { status: 'provisioned' } })
    const { saleEvents } = await harness.billing.listSaleEvents({
      ...scope(vendor),
      beforeId: '',
      limit: 10,
    })
    expect(saleEvents).toMatchObject([{ currency: 'xyz' }])
  })

  test('lasts as long as its price says, unless it gives its own end', async () => {
    const vendor = await harness.givenVendor({ price: { periodMonths: 13 } })
    const byPrice = await record(vendor, { priceId: vendor.priceId })
    const { expiresOn } = await licenceOf(harness, vendor, byPrice.saleEvent!.licenceId!)
    expect(Number(expiresOn!.seconds)).toBe(Date.UTC(2027, 1, 28, 9) / 1000)
    const said = timestampFromDate(new Date(Date.UTC(2030, 0, 1)))
    const own = await record(vendor, { saleId: 'order-2', externalRef: 'cust-2', expiresOn: said })
    expect((await licenceOf(harness, vendor, own.saleEvent!.licenceId!)).expiresOn).toEqual(said)
  })

  test('that would end past the year 9999 by its price has to give its own end', async () => {
    const vendor = await harness.givenVendor({ price: { periodMonths: (9999 - 2026) * 12 } })
    const at = timestampFromDate(new Date(Date.UTC(2026, 9, 31, 23, 59, 59, 999)))
    const last = await record(vendor, { priceId: vendor.priceId, occurredAt: at })
    const { expiresOn } = await licenceOf(harness, vendor, last.saleEvent!.licenceId!)
    expect(timestampDate(expiresOn!).toISOString()).toBe('9999-10-31T23:59:59.999Z')
    const price = {
      planId: vendor.planId,
      priceId: vendor.priceId,
      amount: 1n,
      currency: 'usd',
      mode: 'payment',
    }
    await harness.billing.setPrice({
      ...scope(vendor),
      price: { ...price, periodMonths: (9999 - 2025) * 12 },
    })
    const sale = { saleId: 'order-2', priceId: vendor.priceId, occurredAt: at }
    await expect(record(vendor, sale)).rejects.toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/expires_on' }],
    })
    expect(await paymentsOf(harness, vendor)).toHaveLength(1)
    const said = timestampFromDate(new Date(Date.UTC(9999, 0, 1)))
    expect(await record(vendor, { ...sale, expiresOn: said })).toMatchObject({ created: true })
  })

  test('may have a time up to 24 hours in the future, and no later', async () => {
    const vendor = await harness.givenVendor()
    const ahead = (ms: number) => timestampFromDate(new Date(Date.now() + ms))
    await expect(record(vendor, { occurredAt: ahead(24.1 * hour) })).rejects.toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/occurred_at' }],
    })
    expect(await record(vendor, { occurredAt: ahead(23.9 * hour) })).toMatchObject({ created: true })
  })

  test('may have references as long as the contract allows, also of characters outside the basic plane', async () => {
    const vendor = await harness.givenVendor()
    const reference = '😀'.repeat(255)
    const { saleEvent } = await record(vendor, { saleId: reference, externalRef: reference })
    expect(saleEvent).toMatchObject({ saleId: reference, status: 'provisioned' })
    expect(await licenceOf(harness, vendor, saleEvent!.licenceId!)).toMatchObject({ externalRef: reference })
    for (const [field, pointer] of [
      ['saleId', '/sale_id'],
      ['externalRef', '/external_ref'],
    ] as const) {
      for (const text of [`${reference}a`, '', 'a\0']) {
        await expect(record(vendor, { [field]: text })).rejects.toMatchObject({ errors: [{ pointer }] })
      }
    }
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
    await handled(harness)
    await eventually(() =>
      expect(sentTypes(harness, vendor)).toEqual(['licence.created', 'payment.provision_failed']),
    )
    expect(harness.events.of(vendor.accountId)).toContainEqual({
      type: 'payment.provision_failed',
      session_id: failed.saleEvent!.id,
      plan_id: vendor.planId,
      amount: 4900,
      currency: 'usd',
      reason: 'plan_archived',
    })
  })

  test.each([
    ['an unknown plan', { planId: 'pln_01k00000000000000000000000' }, '/plan_id'],
    ['an unknown price', { priceId: 'price_unknown' }, '/price_id'],
  ])('of %s is refused', async (_, sale, pointer) => {
    const vendor = await harness.givenVendor()
    await expect(record(vendor, sale)).rejects.toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer }],
    })
    expect(await paymentsOf(harness, vendor)).toEqual([])
  })

  test('belongs to its application: another application may use the same id', async () => {
    const one = await harness.givenVendor()
    const other = await harness.givenVendor()
    const first = await record(one)
    const second = await record(other, { amount: 1n })
    expect(second.created).toBe(true)
    expect(second.saleEvent!.licenceId).not.toBe(first.saleEvent!.licenceId)
  })

  test('is unavailable, and not half done, while licensing is unavailable', async () => {
    const vendor = await harness.givenVendor()
    harness.licensingProcess.freeze()
    try {
      await expect(record(vendor)).rejects.toMatchObject({ code: 'unavailable' })
    } finally {
      harness.licensingProcess.resume()
    }
    const { saleEvent } = await record(vendor)
    expect(saleEvent).toMatchObject({ status: 'provisioned' })
    expect(await licencesOf(harness, vendor)).toHaveLength(1)
    await handled(harness)
    // Licensing, which was suspended, sends the event when it continues.
    await eventually(() => expect(sentTypes(harness, vendor)).toEqual(['licence.created']))
  })

  test('whose answer was lost is still recorded: no licence stays without its sale', async () => {
    const vendor = await harness.givenVendor()
    harness.licensingProcess.freeze()
    try {
      await expect(record(vendor)).rejects.toMatchObject({ code: 'unavailable' })
    } finally {
      harness.licensingProcess.resume()
    }
    await eventually(async () => expect(await licencesOf(harness, vendor)).toHaveLength(1))
    await handled(harness)
    const [licence] = await licencesOf(harness, vendor)
    expect(await paymentsOf(harness, vendor)).toMatchObject([{ saleId: 'order-1', licenceId: licence!.id }])
    expect(await record(vendor)).toMatchObject({ created: false, saleEvent: { licenceId: licence!.id } })
    expect(await licencesOf(harness, vendor)).toHaveLength(1)
  })
})
