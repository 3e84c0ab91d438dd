import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { Fact } from '../processors/facts.ts'
import { factsOf, isUsed } from './events.ts'

const folder = new URL('../../../../packages/stripe-simulator/fixtures/events/', import.meta.url)
const files = readdirSync(folder)

function read(name: string): Fact | undefined {
  const file = files.find((each) => each.startsWith(`${name}-`))!
  return factsOf(readFileSync(new URL(file, folder)))[0]
}

const at = (seconds: number) => new Date(seconds * 1000)

describe('an event of Stripe’s', () => {
  test('of every recorded kind is read without failing', () => {
    expect(files.length).toBeGreaterThan(20)
    for (const file of files) expect(() => factsOf(readFileSync(new URL(file, folder)))).not.toThrow()
  })

  test('says what a checkout came to', () => {
    expect(read('a1')).toEqual({
      kind: 'checkout',
      checkoutRef: 'cs_test_a1FixturePurchaseA',
      sessionId: 'chk_01fixtureA',
      state: 'paid',
      amount: 4900n,
      currency: 'usd',
      paymentRef: 'pi_3TPurchA00000001',
      subscriptionRef: undefined,
      invoiceRef: undefined,
      at: at(1793700002),
    })
    expect(read('b1')).toMatchObject({ state: 'unpaid' })
    expect(read('b2')).toMatchObject({ state: 'paid' })
    expect(read('c2')).toMatchObject({ state: 'failed' })
  })

  test('says what was refunded, refund by refund and in all', () => {
    expect(read('a3')).toMatchObject({ kind: 'refund', amount: 1900n, status: 'succeeded' })
    expect(read('a6')).toMatchObject({
      kind: 'charge',
      amount: 4900n,
      refunded: 4900n,
      chargedAt: at(1793700000),
    })
    expect(read('b3')).toMatchObject({ kind: 'refund', status: 'pending' })
  })

  test('says which invoice was paid, until when, and which failed', () => {
    expect(read('s1')).toMatchObject({ kind: 'invoice_paid', first: true, periodEnd: at(1796342400) })
    expect(read('s8')).toMatchObject({ kind: 'invoice_failed', attempt: 4 })
    expect(read('s9')).toMatchObject({ kind: 'subscription_ended', paymentsFailed: true })
  })

  test('of the platform’s own means nothing here', () => {
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
    ['a status to come', undefined],
  ])('tells a dispute that is %s as %s', (status, stage) => {
    expect(factsOf(eventOf('charge.dispute.updated', { id: 'du_1', status }))[0]).toEqual(
      stage && expect.objectContaining({ kind: 'dispute', stage }),
    )
  })

  test.each(['requires_action', 'a status to come'])('counts a refund that is %s as pending', (status) => {
    expect(factsOf(eventOf('refund.updated', { id: 're_1', status }))[0]).toMatchObject({ status: 'pending' })
  })

  test('tells that a refund had succeeded before it failed', () => {
    const event = eventOf('refund.failed', { id: 're_1', status: 'failed' }, { status: 'succeeded' })
    expect(factsOf(event)[0]).toMatchObject({ status: 'failed', hadSucceeded: true })
  })

  test('of a subscription’s first invoice that fails says nothing: there is no licence yet', () => {
    const parent = { subscription_details: { subscription: 'sub_1', metadata: {} } }
    const invoice = { id: 'in_1', billing_reason: 'subscription_create', parent, attempt_count: 3 }
    expect(factsOf(eventOf('invoice.payment_failed', invoice))).toEqual([])
  })

  test('that lacks what newer versions have is read as far as it goes', () => {
    const facts = factsOf(eventOf('checkout.session.completed', { id: 'cs_1', payment_status: 'paid' }))
    expect(facts[0]).toMatchObject({ checkoutRef: 'cs_1', amount: undefined, currency: undefined })
  })
})

function eventOf(type: string, object: object, before?: object): Buffer {
  const defaults = { amount: 100, currency: 'usd', charge: 'ch_1', created: 1793700000 }
  return Buffer.from(
    JSON.stringify({
      id: 'evt_1',
      type,
      created: 1793700000,
      data: {
        object: type.startsWith('checkout') ? object : { ...defaults, ...object },
        ...(before && { previous_attributes: before }),
      },
    }),
  )
}
