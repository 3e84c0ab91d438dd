import { eventually } from '@licensing/test-support/poll'
import { describe, expect, test } from 'vitest'
import { sharedHarness } from '../../test/harness.ts'
import { outcomeOf } from '../../test/outcome.ts'
import { applicationFeesOf, dropEvents, givenSold, handled, licenceOf, refundsOf } from '../../test/shop.ts'
import type { Sold } from '../../test/shop.ts'
import type { Vendor } from '../../test/vendor.ts'

const harness = await sharedHarness()

interface Story {
  title: string
  happens: (sold: Sold, vendor: Vendor) => Promise<unknown>
  licence: string
  /** Entries after the charge. */
  ledger?: string[]
  refunds: string[]
  /** The events that the vendor is sent after the sale. */
  sent: string[]
}

const control = (name: string, how: object) => harness.simulator.control<{ id: string }>(name, how)
const refund = (charge: string, how: { amount?: number; status?: string } = {}) =>
  control('refund', { charge, ...how })
const dispute = (charge: string, kind: 'chargeback' | 'inquiry', how: object = {}) =>
  control('dispute', { charge, kind, ...how })
const close = (dispute: string, outcome: string) => control('close-dispute', { dispute, outcome })

const credited = ['credit -245']

const stories: Story[] = [
  {
    title: 'a refund of another part of a downgraded licence is reported, and changes nothing more',
    happens: async ({ charge }) => {
      await refund(charge, { amount: 100 })
      await refund(charge, { amount: 200 })
    },
    licence: 'downgraded',
    refunds: ['partial_refund 100 succeeded', 'partial_refund 200 succeeded'],
    sent: [
      'licence.downgraded',
      'refund.processed partial_refund 100',
      'refund.processed partial_refund 200',
    ],
  },
  {
    title: 'a pending refund that succeeds revokes',
    happens: async ({ charge }, vendor) => {
      const { id } = await refund(charge, { status: 'pending' })
      await handled(harness, vendor)
      await control('refund-status', { refund: id, status: 'succeeded' })
    },
    licence: 'revoked',
    ledger: credited,
    refunds: ['full_refund 4900 succeeded'],
    sent: ['licence.revoked', 'refund.processed full_refund 4900'],
  },
  {
    title: 'a pending refund that fails changes nothing, and an alert is sent',
    happens: async ({ charge }) => {
      const { id } = await refund(charge, { status: 'pending' })
      await control('refund-status', { refund: id, status: 'failed' })
    },
    licence: 'active',
    refunds: ['full_refund 4900 failed'],
    sent: ['alert A refund failed'],
  },
  {
    title:
      'a refund that fails after it succeeded does not revive the licence: the credit is reversed, once, and an alert is sent',
    happens: async ({ charge }, vendor) => {
      const { id } = await refund(charge)
      await handled(harness, vendor)
      await control('refund-status', { refund: id, status: 'failed' })
    },
    licence: 'revoked',
    ledger: ['credit -245', 'reversal 245'],
    refunds: ['full_refund 4900 failed'],
    sent: ['alert A refund failed', 'licence.revoked', 'refund.processed full_refund 4900'],
  },
  {
    title: 'a refund on a licence that was retired is reported, and the licence stays retired',
    happens: async ({ charge, licenceId }, { accountId }) => {
      await harness.licensing.retireLicence({ accountId, licenceId, actor: 'key_test' })
      await refund(charge)
    },
    licence: 'retired',
    ledger: credited,
    refunds: ['full_refund 4900 succeeded'],
    sent: ['licence.retired', 'refund.processed full_refund 4900'],
  },
  {
    title: 'a chargeback revokes, earns no credit, and does not revive the licence when it is won',
    happens: async ({ charge }, vendor) => {
      const { id } = await dispute(charge, 'chargeback', { amount: 4000 })
      await handled(harness, vendor)
      await close(id, 'won')
    },
    licence: 'revoked',
    refunds: ['chargeback 4000 won'],
    sent: ['licence.revoked', 'refund.processed chargeback 4000'],
  },
  {
    title: 'an inquiry only suspends, and reactivates when it is closed in the vendor’s favour',
    happens: async ({ charge }, vendor) => {
      const { id } = await dispute(charge, 'inquiry')
      await handled(harness, vendor)
      await close(id, 'warning_closed')
    },
    licence: 'active',
    refunds: [],
    sent: ['licence.reactivated', 'licence.suspended dispute_inquiry'],
  },
  {
    title: 'a dispute and a refund of the same charge are reported twice, and revoke once',
    happens: async ({ charge }) => {
      await refund(charge)
      await dispute(charge, 'chargeback', { force: true })
    },
    licence: 'revoked',
    ledger: credited,
    refunds: ['chargeback 4900 open', 'full_refund 4900 succeeded'],
    sent: ['licence.revoked', 'refund.processed chargeback 4900', 'refund.processed full_refund 4900'],
  },
  ...[[], ['charge.dispute.updated']].map((lost) => ({
    title: `an inquiry that becomes a lost chargeback suspends, then revokes once, without a credit; lost: ${lost.join() || 'nothing'}`,
    happens: async ({ charge }: Sold, vendor: Vendor) => {
      if (lost.length > 0) await dropEvents(harness, vendor, ...lost)
      const { id } = await dispute(charge, 'inquiry')
      await handled(harness, vendor)
      await control('escalate-dispute', { dispute: id })
      await handled(harness, vendor)
      await close(id, 'lost')
    },
    licence: 'revoked',
    refunds: ['chargeback 4900 lost'],
    sent: ['licence.revoked', 'licence.suspended dispute_inquiry', 'refund.processed chargeback 4900'],
  })),
]

describe.concurrent('of a sale,', () => {
  test.each(stories)('$title', async ({ happens, licence, ledger = [], refunds, sent }) => {
    const vendor = await harness.givenVendor()
    await happens(await givenSold(harness, vendor), vendor)
    await handled(harness, vendor)
    expect(await outcomeOf(harness, vendor)).toEqual({
      licences: [licence],
      ledger: ['charge 245', ...ledger],
      refunds,
      sent: [...sent, 'licence.created', 'payment.succeeded 4900'].sort(),
    })
  })

  test('a refund of everything revokes, credits the fee and refunds it at the processor', async () => {
    const vendor = await harness.givenVendor()
    const { licenceId, charge } = await givenSold(harness, vendor)
    await refund(charge)
    await handled(harness, vendor)
    expect(await outcomeOf(harness, vendor)).toMatchObject({
      licences: ['revoked'],
      ledger: ['charge 245', 'credit -245'],
      refunds: ['full_refund 4900 succeeded'],
    })
    expect(harness.events.of(vendor.accountId)).toContainEqual({
      type: 'refund.processed',
      licence_id: licenceId,
      charge_ref: charge,
      amount: 4900,
      lane: 'full_refund',
    })
    expect(await refundsOf(harness, vendor)).toMatchObject([
      { licenceId, chargeRef: charge, currency: 'usd' },
    ])
    const refunded = { amount: 245, amount_refunded: 245 }
    await eventually(async () => expect(await applicationFeesOf(harness, charge)).toMatchObject([refunded]))
  })
})

describe.concurrent('a refund event', () => {
  async function report(account: string, charge: string, currency: string): Promise<string> {
    const id = `re_${charge}`
    const created = Math.floor(Date.now() / 1000)
    const object = { id, object: 'refund', amount: 4900, charge, payment_intent: null, created, currency }
    const data = { object: { ...object, status: 'succeeded' } }
    await control('deliver', { event: { type: 'refund.created', account, data } })
    return id
  }

  test('of another merchant about the charge has no effect', async () => {
    const [vendor, other] = [await harness.givenVendor(), await harness.givenVendor()]
    const { charge, licenceId } = await givenSold(harness, vendor)
    await report(other.connectedAccount, charge, 'usd')
    await handled(harness, other)
    await handled(harness, vendor)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'active' })
    expect(await refundsOf(harness, vendor)).toEqual([])
    expect(await refundsOf(harness, other)).toEqual([])
  })

  test('in another currency is not counted, and an alert is sent', async () => {
    const vendor = await harness.givenVendor()
    const { charge } = await givenSold(harness, vendor)
    const id = await report(vendor.connectedAccount, charge, 'eur')
    await handled(harness, vendor)
    expect(await outcomeOf(harness, vendor)).toMatchObject({ licences: ['active'], ledger: ['charge 245'] })
    const alerts = harness.events
      .raw(vendor.accountId)
      .flatMap(({ payload }) => (payload.case === 'vendorAlert' ? [payload.value] : []))
    expect(alerts).toMatchObject([
      {
        subject: `A refund in another currency on charge ${charge}`,
        text: expect.stringContaining(`Refund ${id} of 49.00 EUR on charge ${charge}`) as string,
      },
    ])
  })
})
