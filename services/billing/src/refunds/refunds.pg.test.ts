import { eventually } from '@licensing/test-support/poll'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import type { Vendor } from '../../test/vendor.ts'
import {
  checkoutRefOf,
  feesOf,
  givenSold,
  handled,
  ledgerOf,
  licenceOf,
  openCheckout,
  pay,
  refundsOf,
  statusOf,
  sentTypes,
} from '../../test/shop.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())
afterEach(() => fetch(`${harness.simulator.url}/_sim/delivery-rules`, { method: 'DELETE' }))

const day = 24 * 60 * 60
const soldAt = Math.floor(Date.now() / 1000) - 60

async function refund(charge: string, how: { amount?: number; status?: string; created?: number } = {}) {
  return harness.simulator.control<{ id: string }>('refund', { charge, ...how })
}

/** `lane amount` of each refund.processed, sorted. */
function processed(vendor: Vendor): string[] {
  return harness.events
    .of(vendor.accountId)
    .filter((event) => event.type === 'refund.processed')
    .map((event) => `${String(event['lane'])} ${String(event['amount'])}`)
    .sort()
}

function alerts(vendor: Vendor): string[] {
  return harness.events
    .raw(vendor.accountId)
    .flatMap((event) => (event.payload.case === 'vendorAlert' ? [event.payload.value.subject] : []))
}

describe('a refund', () => {
  test('of everything revokes the licence, credits the fee and refunds it at the processor', async () => {
    const vendor = await harness.givenVendor()
    const { licenceId, charge } = await givenSold(harness, vendor)
    await refund(charge)
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'revoked' })
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245', 'credit -245'])
    await eventually(() =>
      expect(sentTypes(harness, vendor)).toEqual([
        'licence.created',
        'licence.revoked',
        'payment.succeeded',
        'refund.processed',
      ]),
    )
    expect(harness.events.of(vendor.accountId)).toContainEqual({
      type: 'refund.processed',
      licence_id: licenceId,
      charge_ref: charge,
      amount: 4900,
      lane: 'full_refund',
    })
    expect(await refundsOf(harness, vendor)).toMatchObject([
      {
        licenceId,
        chargeRef: charge,
        amount: 4900n,
        currency: 'usd',
        lane: 'full_refund',
        status: 'succeeded',
      },
    ])
    await eventually(async () => {
      const answer = await fetch(`${harness.simulator.url}/v1/application_fees?charge=${charge}`, {
        headers: { authorization: 'Bearer sk_test_simulated' },
      })
      expect(await answer.json()).toMatchObject({ data: [{ amount: 245, amount_refunded: 245 }] })
    })
  })

  test('of a part downgrades; parts that add up to everything end as a full refund', async () => {
    const vendor = await harness.givenVendor()
    const { licenceId, charge } = await givenSold(harness, vendor)
    await refund(charge, { amount: 1900 })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'downgraded' })
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245'])
    await refund(charge, { amount: 3000 })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'revoked' })
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245', 'credit -245'])
    await eventually(() => expect(processed(vendor)).toEqual(['full_refund 3000', 'partial_refund 1900']))
    await eventually(() =>
      expect(sentTypes(harness, vendor)).toEqual([
        'licence.created',
        'licence.downgraded',
        'licence.revoked',
        'payment.succeeded',
        'refund.processed',
        'refund.processed',
      ]),
    )
  })

  test('of another part of a downgraded licence is reported, and changes nothing more', async () => {
    const vendor = await harness.givenVendor()
    const { licenceId, charge } = await givenSold(harness, vendor)
    await refund(charge, { amount: 100 })
    await refund(charge, { amount: 200 })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'downgraded' })
    await eventually(() => expect(processed(vendor)).toEqual(['partial_refund 100', 'partial_refund 200']))
    await eventually(() =>
      expect(sentTypes(harness, vendor).filter((type) => type === 'licence.downgraded')).toHaveLength(1),
    )
  })

  test('counts only when it has succeeded', async () => {
    const vendor = await harness.givenVendor()
    const { licenceId, charge } = await givenSold(harness, vendor)
    const { id } = await refund(charge, { status: 'pending' })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'active' })
    expect(await refundsOf(harness, vendor)).toMatchObject([{ status: 'pending' }])
    await harness.simulator.control('refund-status', { refund: id, status: 'succeeded' })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'revoked' })
    expect(await refundsOf(harness, vendor)).toMatchObject([{ status: 'succeeded', lane: 'full_refund' }])
  })

  test('that fails before it succeeded changes nothing, and an alert is sent', async () => {
    const vendor = await harness.givenVendor()
    const { licenceId, charge } = await givenSold(harness, vendor)
    const { id } = await refund(charge, { status: 'pending' })
    await harness.simulator.control('refund-status', { refund: id, status: 'failed' })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'active' })
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245'])
    await eventually(() => expect(alerts(vendor)).toEqual([`A refund failed on charge ${charge}`]))
    expect(processed(vendor)).toEqual([])
  })

  test('that fails after it succeeded does not revive the licence: the credit is reversed, once, and an alert is sent', async () => {
    const vendor = await harness.givenVendor()
    const { licenceId, charge } = await givenSold(harness, vendor)
    const { id } = await refund(charge)
    await handled(harness)
    await harness.simulator.control('refund-status', { refund: id, status: 'failed' })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'revoked' })
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245', 'credit -245', 'reversal 245'])
    await eventually(() => expect(alerts(vendor)).toHaveLength(1))
    expect(await refundsOf(harness, vendor)).toMatchObject([{ status: 'failed', lane: 'full_refund' }])
    const { spentMinor } = await harness.billing.getSpendCap(vendor)
    expect(spentMinor).toBe(245n)
  })

  test('on a licence that was retired is reported, and the licence stays retired', async () => {
    const vendor = await harness.givenVendor()
    const { licenceId, charge } = await givenSold(harness, vendor)
    const { accountId } = vendor
    await harness.licensing.retireLicence({ accountId, licenceId, actor: 'key_test' })
    await refund(charge)
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'retired' })
    await eventually(() => expect(processed(vendor)).toEqual(['full_refund 4900']))
    expect(sentTypes(harness, vendor)).not.toContain('licence.revoked')
  })

  test('that arrives before its sale is kept, and applied when the sale arrives', async () => {
    const vendor = await harness.givenVendor()
    const session = await openCheckout(harness, vendor)
    await harness.simulator.control('delivery-rules', { action: 'hold' })
    await pay(harness, session)
    await refund(checkoutRefOf(session))
    await harness.simulator.control('release', { order: 'reversed' })
    await fetch(`${harness.simulator.url}/_sim/delivery-rules`, { method: 'DELETE' })
    await handled(harness)
    expect(await statusOf(harness, vendor, session.id)).toBe('provisioned')
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245', 'credit -245'])
    await eventually(() =>
      expect(sentTypes(harness, vendor)).toEqual([
        'licence.created',
        'licence.revoked',
        'payment.succeeded',
        'refund.processed',
      ]),
    )
  })

  test('of a charge that was not made through a checkout session has no effect', async () => {
    const vendor = await harness.givenVendor()
    const other = await harness.givenVendor()
    const { charge, licenceId } = await givenSold(harness, vendor)
    await harness.simulator.control('deliver', {
      event: {
        type: 'refund.created',
        account: other.connectedAccount,
        data: {
          object: {
            id: `re_${vendor.priceId}`,
            object: 'refund',
            amount: 4900,
            charge,
            payment_intent: null,
            created: soldAt,
            currency: 'usd',
            status: 'succeeded',
          },
        },
      },
    })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'active' })
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245'])
    expect(await refundsOf(harness, other)).toEqual([])
  })

  test('in another currency is not counted, and an alert is sent', async () => {
    const vendor = await harness.givenVendor()
    const { charge, licenceId } = await givenSold(harness, vendor)
    await harness.simulator.control('deliver', {
      event: {
        type: 'refund.created',
        account: vendor.connectedAccount,
        data: {
          object: {
            id: `re_${vendor.priceId}`,
            object: 'refund',
            amount: 4900,
            charge,
            payment_intent: null,
            created: soldAt,
            currency: 'eur',
            status: 'succeeded',
          },
        },
      },
    })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'active' })
    await eventually(() =>
      expect(alerts(vendor)).toEqual([`A refund in another currency on charge ${charge}`]),
    )
    const [text] = harness.events
      .raw(vendor.accountId)
      .flatMap(({ payload }) => (payload.case === 'vendorAlert' ? [payload.value.text] : []))
    expect(text).toContain(`Refund re_${vendor.priceId} of 49.00 EUR on charge ${charge}`)
  })
})

describe('the fee is credited', () => {
  test.each([
    ['up to exactly 7 days after the charge', 7 * day, ['charge 245', 'credit -245']],
    ['and not a second later', 7 * day + 1, ['charge 245']],
  ])('%s', async (_, after, ledger) => {
    const vendor = await harness.givenVendor()
    const created = soldAt - 20 * day
    const { charge } = await givenSold(harness, vendor, { created })
    await refund(charge, { created: created + after })
    await handled(harness)
    expect(await ledgerOf(harness, vendor)).toEqual(ledger)
  })

  test('only if the part that completes the refund is in time', async () => {
    const vendor = await harness.givenVendor()
    const created = soldAt - 20 * day
    const { charge } = await givenSold(harness, vendor, { created })
    await refund(charge, { amount: 4000, created: created + 5 * day })
    await refund(charge, { amount: 900, created: created + 8 * day })
    await handled(harness)
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245'])
  })

  test('to the month of the charge', async () => {
    const vendor = await harness.givenVendor()
    const { charge } = await givenSold(harness, vendor, { created: Date.UTC(2026, 9, 30, 12) / 1000 })
    await refund(charge, { created: Date.UTC(2026, 10, 3, 12) / 1000 })
    await handled(harness)
    const fees = await feesOf(harness, vendor)
    expect(fees.map((fee) => [fee.kind, fee.period])).toEqual([
      ['credit', '2026-10'],
      ['charge', '2026-10'],
    ])
  })
})

describe('a dispute', () => {
  const dispute = (charge: string, kind: 'chargeback' | 'inquiry', how: object = {}) =>
    harness.simulator.control<{ id: string }>('dispute', { charge, kind, ...how })

  test('that is a chargeback revokes at its opening, earns no credit, and does not revive the licence when it is won', async () => {
    const vendor = await harness.givenVendor()
    const { licenceId, charge } = await givenSold(harness, vendor)
    const { id } = await dispute(charge, 'chargeback', { amount: 4000 })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'revoked' })
    await harness.simulator.control('close-dispute', { dispute: id, outcome: 'won' })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'revoked' })
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245'])
    await eventually(() => expect(processed(vendor)).toEqual(['chargeback 4000']))
    expect(await refundsOf(harness, vendor)).toMatchObject([
      { lane: 'chargeback', amount: 4000n, status: 'won' },
    ])
  })

  test('that is an inquiry only suspends, and reactivates when it is closed in the vendor’s favour', async () => {
    const vendor = await harness.givenVendor()
    const { licenceId, charge } = await givenSold(harness, vendor)
    const { id } = await dispute(charge, 'inquiry')
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({
      status: 'suspended',
      statusReason: 'dispute_inquiry',
    })
    await harness.simulator.control('close-dispute', { dispute: id, outcome: 'warning_closed' })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'active' })
    expect(await refundsOf(harness, vendor)).toEqual([])
    await eventually(() =>
      expect(sentTypes(harness, vendor)).toEqual([
        'licence.created',
        'licence.reactivated',
        'licence.suspended',
        'payment.succeeded',
      ]),
    )
  })

  test('and a refund of the same charge are reported twice, and revoke once', async () => {
    const vendor = await harness.givenVendor()
    const { charge } = await givenSold(harness, vendor)
    await refund(charge)
    await dispute(charge, 'chargeback', { force: true })
    await handled(harness)
    await eventually(() => expect(processed(vendor)).toEqual(['chargeback 4900', 'full_refund 4900']))
    await eventually(() =>
      expect(sentTypes(harness, vendor).filter((type) => type === 'licence.revoked')).toHaveLength(1),
    )
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245', 'credit -245'])
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
    const { id } = await harness.simulator.control<{ id: string }>('dispute', { charge, kind: 'inquiry' })
    await between()
    await harness.simulator.control('escalate-dispute', { dispute: id })
    await between()
    await harness.simulator.control('close-dispute', { dispute: id, outcome: 'lost' })
    return { vendor, licenceId }
  }

  async function expectLost({ vendor, licenceId }: { vendor: Vendor; licenceId: string }): Promise<void> {
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'revoked' })
    expect(await refundsOf(harness, vendor)).toMatchObject([
      { lane: 'chargeback', status: 'lost', amount: 4900n },
    ])
    await eventually(() => expect(processed(vendor)).toEqual(['chargeback 4900']))
    // A chargeback earns no credit.
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245'])
    await eventually(() => expect(sentTypes(harness, vendor)).toEqual(sent))
  }

  test('suspends, then revokes once, without a credit', async () => {
    await expectLost(await lose(() => handled(harness)))
  })

  test('has the same result backwards', async () => {
    await harness.simulator.control('delivery-rules', {
      action: 'hold',
      types: ['charge.dispute.created', 'charge.dispute.updated', 'charge.dispute.closed'],
    })
    const lost = await lose(async () => {})
    await harness.simulator.control('release', { order: 'reversed' })
    await expectLost(lost)
  })

  test('has the same result if no event reports that it became a chargeback', async () => {
    await harness.simulator.control('delivery-rules', { action: 'drop', types: ['charge.dispute.updated'] })
    await expectLost(await lose(() => handled(harness)))
  })
})
