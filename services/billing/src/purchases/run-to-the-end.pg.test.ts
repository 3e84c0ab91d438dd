import { eventually } from '@licensing/test-support/poll'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { startHarness } from '../testing/harness.ts'
import type { Harness } from '../testing/harness.ts'
import {
  givenSold,
  handled,
  ledgerOf,
  licenceOf,
  licencesOf,
  openCheckout,
  pay,
  paymentsOf,
  refundsOf,
  sentTypes,
  statusOf,
} from '../testing/shop.ts'
import { endWithGrace, expiryOf, givenOtherPlan, givenSubscribed, monthly } from '../testing/subscribed.ts'
import type { Subscribed } from '../testing/subscribed.ts'
import type { Vendor } from '../testing/vendor.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())
afterEach(() => fetch(`${harness.simulator.url}/_sim/delivery-rules`, { method: 'DELETE' }))

const control = <Result extends object>(name: string, how: object): Promise<Result> =>
  harness.simulator.control<Result>(name, how)

const act = <Result extends object>(name: string, { subscription }: Subscribed, how: object = {}) =>
  control<Result>(name, { subscription, ...how })

const statusOfLicence = async ({ vendor, licenceId }: Pick<Subscribed, 'vendor' | 'licenceId'>) =>
  (await licenceOf(harness, vendor, licenceId)).status

const alerts = (vendor: Vendor) =>
  harness.events
    .raw(vendor.accountId)
    .flatMap(({ payload }) => (payload.case === 'vendorAlert' ? [payload.value.kind] : []))

async function givenRenewed(): Promise<Subscribed & { renewal: string }> {
  const customer = await givenSubscribed(harness, await harness.givenVendor(monthly))
  await act('renew', customer)
  await handled(harness)
  const payments = await paymentsOf(harness, customer.vendor)
  const renewal = payments.find((payment) => payment.chargeRef !== customer.charge)!.chargeRef!
  return { ...customer, renewal }
}

describe('a refund of a renewal', () => {
  test('in full revokes, credits the renewal’s fee, and what is paid after it raises an alert', async () => {
    const customer = await givenRenewed()
    const { vendor, renewal } = customer
    await control('refund', { charge: renewal })
    await handled(harness)
    expect(await statusOfLicence(customer)).toBe('revoked')
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 149', 'charge 149', 'credit -149'])
    expect(await refundsOf(harness, vendor)).toMatchObject([{ lane: 'full_refund', chargeRef: renewal }])
    await act('renew', customer)
    await handled(harness)
    expect(await statusOfLicence(customer)).toBe('revoked')
    await eventually(() => expect(alerts(vendor)).toEqual(['renewal_without_licence']))
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
    await act('renew', customer)
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

describe('of two subscriptions of one customer', () => {
  async function givenTwo(): Promise<{ former: Subscribed; later: Subscribed; better: Vendor }> {
    const vendor = await harness.givenVendor(monthly)
    const former = await givenSubscribed(harness, vendor)
    const better = await givenOtherPlan(harness, vendor)
    const sold = await givenSubscribed(harness, better)
    const later = { ...sold, vendor }
    expect(later.licenceId).toBe(former.licenceId)
    await handled(harness)
    return { former, later, better }
  }

  test('the licence has the plan and the end of the later; effects of the earlier do not change it', async () => {
    const { former, later, better } = await givenTwo()
    await act('renew', later)
    await handled(harness)
    const end = await endWithGrace(harness, later)
    expect(await expiryOf(harness, later)).toBe(end)
    for (let attempt = 0; attempt < 3; attempt += 1) await act('fail-invoice', former)
    await act('renew', former)
    await act('cancel', former, { when: 'now' })
    await handled(harness)
    expect(await licenceOf(harness, later.vendor, later.licenceId)).toMatchObject({
      status: 'active',
      planId: better.planId,
    })
    expect(await expiryOf(harness, later)).toBe(end)
    expect(await licencesOf(harness, later.vendor)).toHaveLength(1)
  })

  test('when the later is refunded, the licence rests on the earlier with its plan and renewals', async () => {
    const { former, later } = await givenTwo()
    await act('renew', former)
    await handled(harness)
    await control('refund', { charge: later.charge })
    await handled(harness)
    expect(await licenceOf(harness, former.vendor, former.licenceId)).toMatchObject({
      status: 'active',
      planId: former.vendor.planId,
    })
    expect(await expiryOf(harness, former)).toBe(await endWithGrace(harness, former))
    await act('renew', former)
    await handled(harness)
    expect(await expiryOf(harness, former)).toBe(await endWithGrace(harness, former))
    await act('cancel', former, { when: 'now' })
    await handled(harness)
    expect(await statusOfLicence(former)).toBe('expired')
  })
})

describe('with a tax in the totals', () => {
  async function givenTaxed(options?: typeof monthly): Promise<Vendor> {
    const vendor = await harness.givenVendor(options)
    await control('settings', { account: vendor.connectedAccount, tax_percent: 19 })
    return vendor
  }

  test('a payment, its fee and its refunds are of what was paid', async () => {
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

  test('a renewal is for its period, and its refund of all but the tax is in part', async () => {
    const customer = await givenSubscribed(harness, await givenTaxed(monthly))
    await act('renew', customer)
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

test('events of an older API version are parked with one alert, and later sales and renewals go on', async () => {
  const vendor = await harness.givenVendor(monthly)
  const customer = await givenSubscribed(harness, vendor)
  const account = vendor.connectedAccount
  await control('settings', { account, api_version: '2024-06-20' })
  const session = await openCheckout(harness, vendor, { externalRef: 'cust-2' })
  await pay(harness, session)
  await act('renew', customer)
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
  await eventually(() => expect(alerts(vendor)).toEqual(['processor_event_parked']))
  expect(await statusOf(harness, vendor, session.id)).toBe('open')
  expect(await expiryOf(harness, customer)).toBe(before)

  await control('settings', { account, api_version: '2026-10-28.endive' })
  await act('renew', customer)
  await handled(harness)
  expect(await expiryOf(harness, customer)).toBe(await endWithGrace(harness, customer))
  await givenSold(harness, vendor, { externalRef: 'cust-3' })
  expect(await parked()).toHaveLength(events.length)
  for (const { eventId } of events) await harness.operations.discardProcessorEvent({ eventId })
})

describe('while the collection of a subscription is paused', () => {
  test.each(['keep_as_draft', 'mark_uncollectible', 'void'])(
    'with %s, no renewal moves the end and none fails; when it goes on, the next one does',
    async (behavior) => {
      const customer = await givenSubscribed(harness, await harness.givenVendor(monthly))
      const { vendor } = customer
      const before = await expiryOf(harness, customer)
      await act('pause-collection', customer, { behavior })
      for (let month = 0; month < 4; month += 1) await act('renew', customer)
      await handled(harness)
      expect(await expiryOf(harness, customer)).toBe(before)
      expect(await statusOfLicence(customer)).toBe('active')
      expect(await ledgerOf(harness, vendor)).toEqual(['charge 149'])
      await act('pause-collection', customer)
      await act('renew', customer)
      await handled(harness)
      expect(await expiryOf(harness, customer)).toBe(await endWithGrace(harness, customer))
      expect(await ledgerOf(harness, vendor)).toEqual(['charge 149', 'charge 149'])
      expect(alerts(vendor)).toEqual([])
    },
  )

  test('a draft that is paid after a later invoice costs its fee and does not move the end back', async () => {
    const customer = await givenSubscribed(harness, await harness.givenVendor(monthly))
    await act('pause-collection', customer, { behavior: 'keep_as_draft' })
    const { latest_invoice: invoice } = await act<{ latest_invoice: string }>('renew', customer)
    await act('pause-collection', customer)
    await act('renew', customer)
    await handled(harness)
    const end = await endWithGrace(harness, customer)
    expect(await expiryOf(harness, customer)).toBe(end)
    await control('pay-invoice', { invoice })
    await handled(harness)
    expect(await expiryOf(harness, customer)).toBe(end)
    expect(await ledgerOf(harness, customer.vendor)).toHaveLength(3)
  })
})

describe('a dispute that is lost after an inquiry', () => {
  const sent = [
    'licence.created',
    'licence.revoked',
    'licence.suspended',
    'payment.succeeded',
    'refund.processed',
  ]

  async function lose(between: () => Promise<void>): Promise<{ vendor: Vendor; licenceId: string }> {
    const vendor = await harness.givenVendor()
    const { charge, licenceId } = await givenSold(harness, vendor)
    await handled(harness)
    const { id } = await control<{ id: string }>('dispute', { charge, kind: 'inquiry' })
    await between()
    await control('escalate-dispute', { dispute: id })
    await between()
    await control('close-dispute', { dispute: id, outcome: 'lost' })
    return { vendor, licenceId }
  }

  async function expectLost({ vendor, licenceId }: { vendor: Vendor; licenceId: string }): Promise<void> {
    await handled(harness)
    expect(await statusOfLicence({ vendor, licenceId })).toBe('revoked')
    expect(await refundsOf(harness, vendor)).toMatchObject([
      { lane: 'chargeback', status: 'lost', amount: 4900n },
    ])
    // A chargeback earns no credit.
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245'])
    await eventually(() => expect(sentTypes(harness, vendor)).toEqual(sent))
  }

  test('suspends, then revokes once, without a credit', async () => {
    await expectLost(await lose(() => handled(harness)))
  })

  test('has the same result backwards', async () => {
    await control('delivery-rules', {
      action: 'hold',
      types: ['charge.dispute.created', 'charge.dispute.updated', 'charge.dispute.closed'],
    })
    const lost = await lose(async () => {})
    await control('release', { order: 'reversed' })
    await expectLost(lost)
  })

  test('has the same result if no event reports that it became a chargeback', async () => {
    await control('delivery-rules', { action: 'drop', types: ['charge.dispute.updated'] })
    await expectLost(await lose(() => handled(harness)))
  })
})
