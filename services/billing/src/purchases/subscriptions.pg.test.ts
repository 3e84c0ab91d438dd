import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { eventually } from '@licensing/test-support/poll'
import { describe, expect, test } from 'vitest'
import { deliver, eventsAt } from '../../test/processor-events.ts'
import { sharedHarness } from '../../test/harness.ts'
import { outcomeOf } from '../../test/outcome.ts'
import {
  applicationFeesOf,
  askProcessor,
  dropEvents,
  givenSold,
  handled,
  ledgerOf,
  licenceOf,
  paymentsOf,
  refundsOf,
  scope,
  sentTypes,
} from '../../test/shop.ts'
import {
  act,
  alertsOf,
  expectPaidPeriod,
  expiryOf,
  givenSubscribed,
  itemsOf,
  monthly,
} from '../../test/subscribed.ts'
import type { Subscribed } from '../../test/subscribed.ts'

const harness = await sharedHarness()

const control = <Result extends object>(name: string, how: object): Promise<Result> =>
  harness.simulator.control<Result>(name, how)

const statusOfLicence = async ({ vendor, licenceId }: Subscribed) =>
  (await licenceOf(harness, vendor, licenceId)).status

/** Makes something happen at the processor that none of its events reports. @returns the events, oldest first */
async function unreported(customer: Subscribed, happen: () => Promise<unknown>) {
  const { vendor } = customer
  await handled(harness, vendor)
  await dropEvents(harness, vendor)
  const before = (await eventsAt(harness, vendor)).length
  await happen()
  return (await eventsAt(harness, vendor)).slice(before)
}

async function deliverAll({ vendor }: Subscribed, events: object[]): Promise<void> {
  for (const event of events) await deliver(harness, vendor, event)
  await handled(harness, vendor)
}

/** The purchase of the licence, as licensing names it. */
const purchaseOf = ({ vendor: { accountId }, session }: Subscribed) => ({
  accountId,
  purchaseRef: session.id,
})
const subscriptionOf = async (customer: Subscribed) =>
  (await harness.billing.getSubscription(purchaseOf(customer))).subscription
const openPage = (customer: Subscribed) =>
  harness.billing.createSubscriptionSession({
    ...purchaseOf(customer),
    returnUrl: 'https://gateway.example.com/customer',
  })

test('a subscription says until when it is paid and whether it renews, until it has ended; its page is the processor’s', async () => {
  const customer = await givenSubscribed(harness)
  const { vendor } = customer
  const [item] = await itemsOf(harness, customer)
  const paidUntil = timestampFromMs(item!.current_period_end * 1000)
  expect(await subscriptionOf(customer)).toMatchObject({ paidUntil, renews: true })
  const { url } = await openPage(customer)
  expect(url).toMatch(new RegExp(`^${harness.simulator.url}/portal/bps_`))
  expect(await (await fetch(url)).text()).toContain('href="https://gateway.example.com/customer"')
  for (const [when, renews] of [
    ['period_end', false],
    ['undo', true],
  ] as const) {
    await act(harness, customer, 'cancel', { when })
    await handled(harness, vendor)
    expect(await subscriptionOf(customer)).toMatchObject({ paidUntil, renews })
  }
  await act(harness, customer, 'renew')
  await handled(harness, vendor)
  const [renewed] = await itemsOf(harness, customer)
  expect(renewed!.current_period_end).toBeGreaterThan(item!.current_period_end)
  const next = timestampFromMs(renewed!.current_period_end * 1000)
  expect(await subscriptionOf(customer)).toMatchObject({ paidUntil: next, renews: true })
  await act(harness, customer, 'cancel', { when: 'now' })
  await handled(harness, vendor)
  expect(await subscriptionOf(customer)).toBeUndefined()
  await expect(openPage(customer)).rejects.toMatchObject({ code: 'conflict' })
})

test('a subscription of another account, an unknown purchase and one that was paid once have no subscription', async () => {
  const customer = await givenSubscribed(harness)
  const other = await harness.givenVendor()
  const once = await givenSold(harness, other)
  for (const [accountId, purchaseRef] of [
    [other.accountId, customer.session.id],
    [customer.vendor.accountId, 'cs_unknown'],
    [other.accountId, once.session.id],
  ] as const) {
    const { subscription } = await harness.billing.getSubscription({ accountId, purchaseRef })
    expect(subscription).toBeUndefined()
    const opened = harness.billing.createSubscriptionSession({
      accountId,
      purchaseRef,
      returnUrl: 'https://x',
    })
    await expect(opened).rejects.toMatchObject({ code: 'conflict' })
  }
})

test('if the processor refuses to open its page, the answer says why; failures of the processor are unavailable', async () => {
  const customer = await givenSubscribed(harness)
  const account = customer.vendor.connectedAccount
  await control('settings', { account, billing_portal: false })
  await expect(openPage(customer)).rejects.toMatchObject({
    code: 'conflict',
    message: expect.stringContaining('default configuration') as string,
  })
  await control('settings', { account, billing_portal: true })
  // As often as Stripe's client tries.
  for (const [answer, next] of [
    ['500', 2],
    ['429', 1],
    ['reset', 2],
  ] as const) {
    await control('faults', { answer, next, path: '/v1/billing_portal', account })
    await expect(openPage(customer), answer).rejects.toMatchObject({ code: 'unavailable' })
  }
  await openPage(customer)
})

test('a renewal that is paid by two charges is one payment with one fee; a refund of one charge is partial, of both full', async () => {
  const customer = await givenSubscribed(harness)
  const { vendor, licenceId } = customer
  await act(harness, customer, 'renew', { first_part: 1000 })
  await handled(harness, vendor)
  const { data: charges } = await askProcessor<{ data: { id: string; amount: number }[] }>(
    harness,
    'charges',
    vendor,
  )
  const [first, second] = [1000, 1980].map((amount) => charges.find((each) => each.amount === amount)!.id)
  expect(await paymentsOf(harness, vendor)).toMatchObject([{ amount: 2980n, feeMinor: 149n }, {}])
  expect(await ledgerOf(harness, vendor)).toEqual(['charge 149', 'charge 149'])
  for (const query of [first!, second!]) {
    const found = await harness.billing.findLicencesOfSale({ ...scope(vendor), query })
    expect(found.licences).toMatchObject([{ licenceId, matched: 'charge_ref' }])
    const page = { ...scope(vendor), limit: 10, beforeId: '', chargeRef: query }
    expect((await harness.billing.listPayments(page)).payments).toMatchObject([{ amount: 2980n }])
  }
  await control('refund', { charge: second })
  await handled(harness, vendor)
  expect(await statusOfLicence(customer)).toBe('downgraded')
  await control('refund', { charge: first })
  await handled(harness, vendor)
  expect(await statusOfLicence(customer)).toBe('revoked')
  const sent = harness.events.of(vendor.accountId).filter(({ type }) => type === 'refund.processed')
  expect(sent.map((event) => `${String(event['charge_ref'])} ${String(event['lane'])}`)).toEqual([
    `${second} partial_refund`,
    `${first} full_refund`,
  ])
  const page = { ...scope(vendor), limit: 10, beforeId: '', chargeRef: second }
  expect((await harness.billing.listRefunds(page)).refunds).toMatchObject([
    { amount: 1980n, chargeRef: second },
  ])
  expect(await ledgerOf(harness, vendor)).toEqual(['charge 149', 'charge 149', 'credit -149'])
  await eventually(async () => {
    const fees = await Promise.all([first!, second!].map((charge) => applicationFeesOf(harness, charge)))
    expect(fees.flat().map((fee) => fee.amount_refunded)).toEqual([50, 99])
  })
})

describe.concurrent('a subscription', () => {
  test('provisions one licence to its period’s end and grace, though invoice and checkout report it; a renewal moves the end, costs its fee and sends no event', async () => {
    const customer = await givenSubscribed(harness)
    const { vendor, charge, session, licenceId } = customer
    await handled(harness, vendor)
    await expectPaidPeriod(harness, customer)
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 149'])
    const first = { amount: 2980n, currency: 'jpy', chargeRef: charge, licenceId, sessionId: session.id }
    expect(await paymentsOf(harness, vendor)).toMatchObject([first])
    await act(harness, customer, 'renew')
    await handled(harness, vendor)
    await expectPaidPeriod(harness, customer)
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 149', 'charge 149'])
    const payments = await paymentsOf(harness, vendor)
    expect(payments).toMatchObject([{ licenceId }, first])
    expect(payments[0]!.chargeRef).not.toBe(charge)
    expect(sentTypes(harness, vendor)).toEqual(['licence.created', 'payment.succeeded'])
  })

  test('whose payment fails three times in a row suspends, once, and is reactivated when it is paid', async () => {
    const customer = await givenSubscribed(harness)
    const { vendor, licenceId } = customer
    const account = vendor.connectedAccount
    const fail = (how: object = {}) => act(harness, customer, 'fail-invoice', how)
    await fail()
    await fail()
    await control('delivery-rules', { action: 'duplicate', times: 3, next: 4, account })
    // This attempt is manual, so Stripe does not count it.
    await fail({ manual: true })
    await handled(harness, vendor)
    expect(await statusOfLicence(customer)).toBe('active')
    await fail()
    await handled(harness, vendor)
    const suspended = { status: 'suspended', statusReason: 'payment_failed' }
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject(suspended)
    await act(harness, customer, 'renew')
    await fail()
    await fail()
    await handled(harness, vendor)
    expect(await statusOfLicence(customer)).toBe('active')
    expect(sentTypes(harness, vendor)).toEqual([
      'licence.created',
      'licence.reactivated',
      'licence.suspended',
      'payment.succeeded',
    ])
  })

  test('refunded for an earlier cycle keeps its licence; for its latest it is revoked, and a later payment raises an alert', async () => {
    const customer = await givenSubscribed(harness)
    const { vendor, charge } = customer
    await act(harness, customer, 'renew')
    await handled(harness, vendor)
    const renewal = (await paymentsOf(harness, vendor))[0]!.chargeRef
    await control('refund', { charge })
    await handled(harness, vendor)
    expect(await statusOfLicence(customer)).toBe('active')
    expect(await refundsOf(harness, vendor)).toMatchObject([{ lane: 'full_refund', chargeRef: charge }])
    // The renewal has moved the customer's clock by a month: too late for a credit of the first fee.
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 149', 'charge 149'])
    await control('refund', { charge: renewal })
    await handled(harness, vendor)
    expect(await statusOfLicence(customer)).toBe('revoked')
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 149', 'charge 149', 'credit -149'])
    await act(harness, customer, 'renew')
    await handled(harness, vendor)
    expect(await statusOfLicence(customer)).toBe('revoked')
    expect(alertsOf(harness, vendor)).toEqual(['renewal_without_licence'])
  })

  test('that is paid although its licence was revoked raises an alert', async () => {
    const customer = await givenSubscribed(harness)
    const { vendor, licenceId } = customer
    await harness.licensing.revokeLicence({ accountId: vendor.accountId, licenceId, actor: 'key_test' })
    await act(harness, customer, 'renew')
    await handled(harness, vendor)
    expect(alertsOf(harness, vendor)).toEqual(['renewal_without_licence'])
    expect(await statusOfLicence(customer)).toBe('revoked')
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 149', 'charge 149'])
  })

  test('that is paid after a chargeback raises an alert, also if the renewal is reported first', async () => {
    const customer = await givenSubscribed(harness)
    const { vendor, charge } = customer
    const types = ['charge.dispute.created', 'charge.dispute.funds_withdrawn']
    await dropEvents(harness, vendor, ...types)
    await control('dispute', { charge })
    await act(harness, customer, 'renew')
    await act(harness, customer, 'renew')
    await handled(harness, vendor)
    expect(await statusOfLicence(customer)).toBe('active')
    const [disputed] = (await eventsAt(harness, vendor)).filter((event) => types.includes(event.type))
    await deliverAll(customer, [disputed!])
    expect(await statusOfLicence(customer)).toBe('revoked')
    const alerts = ['renewal_without_licence', 'renewal_without_licence']
    expect(alertsOf(harness, vendor)).toEqual(alerts)
    // A refund of the charged back payment raises no further alert.
    await control('refund', { charge, force: true, created: Math.ceil(Date.now() / 1000) })
    await handled(harness, vendor)
    expect(alertsOf(harness, vendor)).toEqual(alerts)
  })

  test('with a tax has its fee on the paid amount, and a refund of all but the tax is a partial refund', async () => {
    const vendor = await harness.givenVendor(monthly)
    await control('settings', { account: vendor.connectedAccount, tax_percent: 19 })
    const customer = await givenSubscribed(harness, vendor)
    await act(harness, customer, 'renew')
    await handled(harness, vendor)
    const taxed = { amount: 3546n, feeMinor: 177n }
    const payments = await paymentsOf(harness, vendor)
    expect(payments).toMatchObject([taxed, taxed])
    await expectPaidPeriod(harness, customer)
    const charge = payments[0]!.chargeRef
    await control('refund', { charge, amount: 2980 })
    await handled(harness, vendor)
    expect(await statusOfLicence(customer)).toBe('downgraded')
    await control('refund', { charge })
    await handled(harness, vendor)
    expect(await outcomeOf(harness, vendor)).toMatchObject({
      licences: ['revoked'],
      ledger: ['charge 177', 'charge 177', 'credit -177'],
      refunds: ['full_refund 566 succeeded', 'partial_refund 2980 succeeded'],
    })
  })
})

describe.concurrent('while the collection of a subscription is paused', () => {
  test.each(['keep_as_draft', 'mark_uncollectible', 'void'])(
    'with %s, no renewal moves the end and no payment fails; after it resumes, the next renewal moves the end',
    async (behavior) => {
      const customer = await givenSubscribed(harness)
      const { vendor } = customer
      const before = await expiryOf(harness, customer)
      await act(harness, customer, 'pause-collection', { behavior })
      for (let month = 0; month < 4; month += 1) await act(harness, customer, 'renew')
      await handled(harness, vendor)
      expect(await expiryOf(harness, customer)).toBe(before)
      expect(await statusOfLicence(customer)).toBe('active')
      expect(await ledgerOf(harness, vendor)).toEqual(['charge 149'])
      await act(harness, customer, 'pause-collection')
      await act(harness, customer, 'renew')
      await handled(harness, vendor)
      await expectPaidPeriod(harness, customer)
      expect(await ledgerOf(harness, vendor)).toEqual(['charge 149', 'charge 149'])
      expect(alertsOf(harness, vendor)).toEqual([])
    },
  )

  test('a draft that is paid after a later invoice costs its fee and does not move the end back', async () => {
    const customer = await givenSubscribed(harness)
    await act(harness, customer, 'pause-collection', { behavior: 'keep_as_draft' })
    const { latest_invoice: invoice } = await act<{ latest_invoice: string }>(harness, customer, 'renew')
    await act(harness, customer, 'pause-collection')
    await act(harness, customer, 'renew')
    await handled(harness, customer.vendor)
    await expectPaidPeriod(harness, customer)
    await control('pay-invoice', { invoice })
    await handled(harness, customer.vendor)
    await expectPaidPeriod(harness, customer)
    expect(await ledgerOf(harness, customer.vendor)).toHaveLength(3)
  })
})

// They run one after the other, because an end waits only a short time for the processor's answer, which lists the failures.
test.each(['payment_failed', 'cancellation_requested'])(
  'a subscription ended (%s) after three failures sends its suspension and its end, though the end is reported long before the failures',
  async (reason) => {
    const customer = await givenSubscribed(harness)
    const events = await unreported(customer, async () => {
      for (let failed = 0; failed < 3; failed += 1) await act(harness, customer, 'fail-invoice')
      await act(harness, customer, 'cancel', { when: 'now', reason })
    })
    const isEnd = ({ type }: { type: string }) => type === 'customer.subscription.deleted'
    await deliverAll(customer, events.filter(isEnd))
    await deliverAll(
      customer,
      events.filter((event) => !isEnd(event)),
    )
    expect(await statusOfLicence(customer)).toBe('expired')
    expect(sentTypes(harness, customer.vendor)).toEqual([
      'licence.created',
      'licence.expired',
      'licence.suspended',
      'payment.succeeded',
    ])
  },
)
