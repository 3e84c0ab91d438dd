import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { Fact } from '../facts.ts'
import { NotUnderstood } from '../processor.ts'
import type { Reading } from '../processor.ts'
import { isUsed, listedEventTypes, readEvent } from './events.ts'

const folder = new URL('../../../../../tools/stripe-simulator/fixtures/events/', import.meta.url)
const files = readdirSync(folder)

function factOf(reading: Reading): Fact | undefined {
  return reading && 'fact' in reading ? reading.fact : undefined
}

function textOf(name: string): string {
  const file = files.find((each) => each.startsWith(`${name}-`))!
  return readFileSync(new URL(file, folder), 'utf8')
}

const read = (name: string): Fact | undefined => factOf(readEvent(Buffer.from(textOf(name))))

const at = (seconds: number) => seconds * 1000

describe('an event of Stripe’s', () => {
  test('of every recorded kind is read without failing', () => {
    expect(files.length).toBeGreaterThan(20)
    for (const file of files) expect(() => readEvent(readFileSync(new URL(file, folder)))).not.toThrow()
  })

  const endsAt = at(1796342400)
  test.each<[string, string, object]>([
    [
      'a checkout that was paid',
      'a1',
      {
        kind: 'checkout',
        checkoutRef: 'cs_test_a1FixturePurchaseA',
        sessionId: 'chk_01fixtureA',
        state: 'paid',
        amount: 4900,
        currency: 'usd',
        paymentRef: 'pi_3TPurchA00000001',
        at: at(1793700002),
      },
    ],
    ['a checkout whose payment is delayed', 'b1', { state: 'unpaid' }],
    ['a delayed payment that arrived', 'b2', { state: 'paid' }],
    ['a delayed payment that failed', 'c2', { state: 'failed' }],
    ['a refund', 'a3', { kind: 'refund', amount: 1900, status: 'succeeded' }],
    ['a refund that is pending', 'b3', { kind: 'refund', status: 'pending' }],
    ['the refunded total', 'a6', { kind: 'charge', amount: 4900, refunded: 4900, chargedAt: at(1793700000) }],
    [
      'a paid invoice with its period and price',
      's1',
      {
        kind: 'invoice_paid',
        reason: 'first',
        lines: [{ itemRef: expect.any(String), priceRef: 'price_1TTeamJpy00000001', periodEnd: endsAt }],
      },
    ],
    ['a failed invoice', 's8', { kind: 'invoice_failed', attempt: 4 }],
    ['the end of a subscription', 's9', { kind: 'subscription_ended' }],
    ['a planned end', 's3', { kind: 'end_scheduled', endsAt, endsAtBefore: null, at: at(1795132800) }],
    ['that a planned end was removed', 's4', { kind: 'end_scheduled', endsAt: null, endsAtBefore: endsAt }],
  ])('reports %s', (_, name, fact) => {
    expect(read(name)).toMatchObject(fact)
  })

  test('of a change of a subscription that has no planned end is not used', () => {
    expect(read('s6')).toBeUndefined()
  })

  test('is read in any currency', () => {
    const text = textOf('a4').replaceAll('"usd"', '"xyz"')
    expect(factOf(readEvent(Buffer.from(text)))).toMatchObject({ kind: 'charge', currency: 'xyz' })
  })

  test('reports that a subscription ends with its period, although Stripe sets only a flag', () => {
    const item = (end: number) => ({ current_period_end: end })
    const items = { data: [item(1796342400), item(1798934400)] }
    const object = { id: 'sub_1', cancel_at: null, cancel_at_period_end: true, items }
    const fact = factIn('customer.subscription.updated', object, { cancel_at_period_end: false })
    expect(fact).toMatchObject({ endsAt: at(1798934400), endsAtBefore: null })
  })

  test('reports that the account withdrew its access, in any API version', () => {
    const event = JSON.parse(textOf('x1')) as object
    const old = Buffer.from(JSON.stringify({ ...event, api_version: '2019-01-01' }))
    expect(readEvent(old)).toMatchObject({ disconnectedAt: expect.any(Date) })
  })

  test('of every type is listed with one request, so that a revocation waits for one answer', () => {
    expect(listedEventTypes).toHaveLength(20)
  })

  test('of the platform itself is not used', () => {
    expect(isUsed('application_fee.created')).toBe(false)
    expect(isUsed('toString')).toBe(false)
  })

  test.each([
    ['warning_needs_response', 'inquiry'],
    ['warning_under_review', 'inquiry'],
    ['warning_closed', 'inquiry_closed'],
    ['needs_response', 'chargeback'],
    ['under_review', 'chargeback'],
    ['appeal_under_review', 'chargeback'],
    ['lost', 'chargeback'],
    ['won', 'chargeback'],
    ['prevented', undefined],
  ])('reports a dispute that is %s as %s', (status, stage) => {
    const fact = factIn('charge.dispute.updated', { id: 'du_1', status })
    expect(fact).toEqual(stage && expect.objectContaining({ kind: 'dispute', stage }))
  })

  test.each(['requires_action', 'pending', null])('counts a refund that is %s as pending', (status) => {
    expect(factIn('refund.updated', { id: 're_1', status })).toMatchObject({ status: 'pending' })
  })

  test.each(['pending', 'failed'])('of a charge that is %s is not used', (status) => {
    expect(factIn('charge.updated', { id: 'ch_1', status })).toBeUndefined()
  })

  test('reports that a refund had succeeded before it failed', () => {
    const fact = factIn('refund.failed', { id: 're_1', status: 'failed' }, { status: 'succeeded' })
    expect(fact).toMatchObject({ status: 'failed', hadSucceeded: true })
  })

  test('of a subscription’s first invoice that fails is not used: there is no licence yet', () => {
    const parent = { subscription_details: { subscription: 'sub_1', metadata: {} } }
    const invoice = { id: 'in_1', billing_reason: 'subscription_create', parent, attempt_count: 3 }
    expect(readEvent(eventOf('invoice.payment_failed', invoice))).toBeUndefined()
  })

  test('is read with ids or whole objects, and with null or absent fields, if Stripe may send either', () => {
    const charge = { id: 'ch_1', object: 'charge' }
    const refund = { id: 're_1', status: 'succeeded', charge, payment_intent: { id: 'pi_1' } }
    expect(factIn('refund.created', refund)).toMatchObject({ chargeRef: 'ch_1', paymentRef: 'pi_1' })
    const bare = { id: 're_1', status: 'succeeded', payment_intent: null }
    expect(factIn('refund.created', bare)).toMatchObject({ paymentRef: undefined })
  })
})

describe('an event that is not understood', () => {
  test.each<[string, string, object]>([
    ['a dispute in an unknown status', 'charge.dispute.updated', { id: 'du_1', status: 'a status to come' }],
    ['a refund in an unknown status', 'refund.updated', { id: 're_1', status: 'a status to come' }],
    ['a refund without an amount', 'refund.created', { id: 're_1', status: 'succeeded', amount: 'much' }],
    ['a charge in an unknown status', 'charge.succeeded', { id: 'ch_1', status: 'a status to come' }],
    [
      'a checkout paid in an unknown way',
      'checkout.session.completed',
      { id: 'cs_1', payment_status: 'later' },
    ],
    ['an invoice of an API version before basil', 'invoice.paid', { id: 'in_1', subscription: 'sub_1' }],
    [
      'an invoice for an unknown reason',
      'invoice.paid',
      { id: 'in_1', billing_reason: 'gift', parent: { subscription_details: { subscription: 'sub_1' } } },
    ],
  ])('is %s', (_, type, object) => {
    expect(() => readEvent(eventOf(type, object))).toThrow(NotUnderstood)
  })

  test('is an event of another API version; other releases of the same line, and previews, are understood', () => {
    const refund = { id: 're_1', status: 'succeeded' }
    const inVersion = (version: string) => eventOf('refund.created', refund, undefined, version)
    expect(() => readEvent(inVersion('2024-06-20'))).toThrow('API version 2024-06-20')
    expect(() => readEvent(inVersion('2026-03-25.dahlia'))).toThrow('dahlia')
    for (const version of ['2026-12-16.endive', '2026-10-28.endive;managed_payments_preview=v1']) {
      expect(factOf(readEvent(inVersion(version)))).toMatchObject({ refundRef: 're_1' })
    }
  })

  test('is a body that is no event', () => {
    for (const body of ['{', '[]', '{"type":"refund.created","created":"now"}']) {
      expect(() => readEvent(Buffer.from(body))).toThrow(NotUnderstood)
    }
  })
})

function factIn(...event: Parameters<typeof eventOf>): Fact | undefined {
  return factOf(readEvent(eventOf(...event)))
}

function eventOf(type: string, object: object, before?: object, version?: string): Buffer {
  const defaults = { amount: 100, currency: 'usd', charge: 'ch_1', created: 1793700000 }
  return Buffer.from(
    JSON.stringify({
      id: 'evt_1',
      type,
      created: 1793700000,
      ...(version !== undefined && { api_version: version }),
      data: {
        object: type.startsWith('checkout') ? object : { ...defaults, ...object },
        ...(before && { previous_attributes: before }),
      },
    }),
  )
}
