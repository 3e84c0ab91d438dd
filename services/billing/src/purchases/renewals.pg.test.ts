import { eventually } from '@licensing/test-support/poll'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import {
  givenSold,
  handled,
  ledgerOf,
  licenceOf,
  openCheckout,
  pay,
  paymentsOf,
  refundsOf,
  statusOf,
} from '../../test/shop.ts'
import { act, alertsOf, endWithGrace, expiryOf, givenSubscribed, monthly } from '../../test/subscribed.ts'
import type { Subscribed } from '../../test/subscribed.ts'
import type { Vendor } from '../../test/vendor.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())
afterEach(() => fetch(`${harness.simulator.url}/_sim/delivery-rules`, { method: 'DELETE' }))

const control = <Result extends object>(name: string, how: object): Promise<Result> =>
  harness.simulator.control<Result>(name, how)

const statusOfLicence = async ({ vendor, licenceId }: Pick<Subscribed, 'vendor' | 'licenceId'>) =>
  (await licenceOf(harness, vendor, licenceId)).status

async function givenRenewed(): Promise<Subscribed & { renewal: string }> {
  const customer = await givenSubscribed(harness, await harness.givenVendor(monthly))
  await act(harness, customer, 'renew')
  await handled(harness)
  const payments = await paymentsOf(harness, customer.vendor)
  const renewal = payments.find((payment) => payment.chargeRef !== customer.charge)!.chargeRef!
  return { ...customer, renewal }
}

describe('a refund of a renewal', () => {
  test('in full revokes, credits the renewal’s fee, and a later payment raises an alert', async () => {
    const customer = await givenRenewed()
    const { vendor, renewal } = customer
    await control('refund', { charge: renewal })
    await handled(harness)
    expect(await statusOfLicence(customer)).toBe('revoked')
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 149', 'charge 149', 'credit -149'])
    expect(await refundsOf(harness, vendor)).toMatchObject([{ lane: 'full_refund', chargeRef: renewal }])
    await act(harness, customer, 'renew')
    await handled(harness)
    expect(await statusOfLicence(customer)).toBe('revoked')
    await eventually(() => expect(alertsOf(harness, vendor)).toEqual(['renewal_without_licence']))
  })

  test('in part downgrades, and the rest of it revokes', async () => {
    const customer = await givenRenewed()
    await control('refund', { charge: customer.renewal, amount: 1000 })
    await handled(harness)
    expect(await statusOfLicence(customer)).toBe('downgraded')
    await control('refund', { charge: customer.renewal })
    await handled(harness)
    expect(await statusOfLicence(customer)).toBe('revoked')
    expect((await refundsOf(harness, customer.vendor)).map(({ lane }) => lane).sort()).toEqual([
      'full_refund',
      'partial_refund',
    ])
  })

  test('has the same result if its events arrive backwards', async () => {
    const customer = await givenSubscribed(harness, await harness.givenVendor(monthly))
    await control('delivery-rules', { action: 'hold' })
    await act(harness, customer, 'renew')
    const renewal = (await chargesOf(customer)).find((charge) => charge !== customer.charge)
    await control('refund', { charge: renewal })
    await control('release', { order: 'reversed' })
    await handled(harness)
    expect(await statusOfLicence(customer)).toBe('revoked')
    expect(await ledgerOf(harness, customer.vendor)).toEqual(['charge 149', 'charge 149', 'credit -149'])
  })
})

async function chargesOf({ vendor }: Subscribed): Promise<string[]> {
  const answer = await fetch(`${harness.simulator.url}/v1/charges`, {
    headers: { authorization: 'Bearer sk_test_simulated', 'stripe-account': vendor.connectedAccount },
  })
  return ((await answer.json()) as { data: { id: string }[] }).data.map(({ id }) => id)
}

describe('with a tax in the totals', () => {
  async function givenTaxed(options?: typeof monthly): Promise<Vendor> {
    const vendor = await harness.givenVendor(options)
    await control('settings', { account: vendor.connectedAccount, tax_percent: 19 })
    return vendor
  }

  test('a payment, its fee and its refunds are based on the paid amount', async () => {
    const vendor = await givenTaxed()
    const sold = await givenSold(harness, vendor)
    const customer = { vendor, licenceId: sold.licenceId }
    expect(sold.payment).toMatchObject({ amount: 5831n, feeMinor: 292n })
    await control('refund', { charge: sold.charge, amount: 4900 })
    await handled(harness)
    expect(await statusOfLicence(customer)).toBe('downgraded')
    await control('refund', { charge: sold.charge })
    await handled(harness)
    expect(await statusOfLicence(customer)).toBe('revoked')
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 292', 'credit -292'])
  })

  test('a renewal is for its period, and a refund of all but the tax is a partial refund', async () => {
    const customer = await givenSubscribed(harness, await givenTaxed(monthly))
    await act(harness, customer, 'renew')
    await handled(harness)
    const payments = await paymentsOf(harness, customer.vendor)
    expect(payments.map(({ amount, feeMinor }) => [amount, feeMinor])).toEqual([
      [3546n, 177n],
      [3546n, 177n],
    ])
    expect(await expiryOf(harness, customer)).toBe(await endWithGrace(harness, customer))
    const renewal = payments.find(({ chargeRef }) => chargeRef !== customer.charge)!.chargeRef
    await control('refund', { charge: renewal, amount: 2980 })
    await handled(harness)
    expect(await statusOfLicence(customer)).toBe('downgraded')
    await control('refund', { charge: renewal })
    await handled(harness)
    expect(await statusOfLicence(customer)).toBe('revoked')
  })
})

test('events of an older API version are parked with one alert, and later sales and renewals still work', async () => {
  const vendor = await harness.givenVendor(monthly)
  const customer = await givenSubscribed(harness, vendor)
  const account = vendor.connectedAccount
  await control('settings', { account, api_version: '2024-06-20' })
  const session = await openCheckout(harness, vendor, { externalRef: 'cust-2' })
  await pay(harness, session)
  await act(harness, customer, 'renew')
  const before = await expiryOf(harness, customer)
  await handled(harness)
  const parked = async () =>
    (await harness.operations.listProcessorEvents({})).events.filter(
      ({ merchant }) => merchant === `stripe:${account}`,
    )
  const events = await parked()
  expect(events.length).toBeGreaterThan(5)
  for (const event of events) expect(event).toMatchObject({ parked: true, attempts: 1 })
  expect(events.map(({ type }) => type)).toContain('checkout.session.completed')
  await eventually(() => expect(alertsOf(harness, vendor)).toEqual(['processor_event_parked']))
  expect(await statusOf(harness, vendor, session.id)).toBe('open')
  expect(await expiryOf(harness, customer)).toBe(before)

  await control('settings', { account, api_version: '2026-10-28.endive' })
  await act(harness, customer, 'renew')
  await handled(harness)
  expect(await expiryOf(harness, customer)).toBe(await endWithGrace(harness, customer))
  await givenSold(harness, vendor, { externalRef: 'cust-3' })
  expect(await parked()).toHaveLength(events.length)
  for (const { eventId } of events) await harness.operations.discardProcessorEvent({ eventId })
})

describe('while the collection of a subscription is paused', () => {
  test.each(['keep_as_draft', 'mark_uncollectible', 'void'])(
    'with %s, no renewal moves the end and no payment fails; after it resumes, the next renewal moves the end',
    async (behavior) => {
      const customer = await givenSubscribed(harness, await harness.givenVendor(monthly))
      const { vendor } = customer
      const before = await expiryOf(harness, customer)
      await act(harness, customer, 'pause-collection', { behavior })
      for (let month = 0; month < 4; month += 1) await act(harness, customer, 'renew')
      await handled(harness)
      expect(await expiryOf(harness, customer)).toBe(before)
      expect(await statusOfLicence(customer)).toBe('active')
      expect(await ledgerOf(harness, vendor)).toEqual(['charge 149'])
      await act(harness, customer, 'pause-collection')
      await act(harness, customer, 'renew')
      await handled(harness)
      expect(await expiryOf(harness, customer)).toBe(await endWithGrace(harness, customer))
      expect(await ledgerOf(harness, vendor)).toEqual(['charge 149', 'charge 149'])
      expect(alertsOf(harness, vendor)).toEqual([])
    },
  )

  test('a draft that is paid after a later invoice costs its fee and does not move the end back', async () => {
    const customer = await givenSubscribed(harness, await harness.givenVendor(monthly))
    await act(harness, customer, 'pause-collection', { behavior: 'keep_as_draft' })
    const { latest_invoice: invoice } = await act<{ latest_invoice: string }>(harness, customer, 'renew')
    await act(harness, customer, 'pause-collection')
    await act(harness, customer, 'renew')
    await handled(harness)
    const end = await endWithGrace(harness, customer)
    expect(await expiryOf(harness, customer)).toBe(end)
    await control('pay-invoice', { invoice })
    await handled(harness)
    expect(await expiryOf(harness, customer)).toBe(end)
    expect(await ledgerOf(harness, customer.vendor)).toHaveLength(3)
  })
})
