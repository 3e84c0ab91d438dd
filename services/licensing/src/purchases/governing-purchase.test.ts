import { expect, test } from 'vitest'
import { governingPurchase } from './governing-purchase.ts'
import type { PurchaseState } from '../lifecycle/licence.ts'
import { beforeAllPurchases } from './purchase.ts'
import type { Purchase } from './purchase.ts'
import { newPurchase } from './purchased-licence.ts'

const day = (n: number) => new Date(Date.UTC(2026, 0, n))

const valid: Purchase = newPurchase({
  application_id: 'app',
  purchase_ref: 'cs',
  account_id: 'acct',
  licence_id: 'lic',
  ordered_at: day(1),
  plan_id: 'pln',
  snapshot_id: 'snap',
  ends_at: day(20),
  renews: false,
  updates_until: null,
  metadata: {},
})
const cancelled: Purchase = { ...valid, terminated_at: day(5), cancelled_at: day(5) }

const inquiry = (at: Date): Partial<Purchase> => ({ first_inquiry_at: at, inquiry_at: at })

/** Events, some of one second. */
const events: [Partial<Purchase>, PurchaseState][] = [
  [{ renewed_at: day(10), failed_at: day(10) }, 'payment_failed'],
  [{ renewed_at: day(10), partially_refunded_at: day(10) }, 'partially_refunded'],
  [{ failed_at: day(10), ...inquiry(day(10)) }, 'payment_failed'],
  // A renewal after the first of the failures, or of another cycle than the refund.
  [{ failed_at: day(10), failed_since: day(7), renewed_at: day(8) }, 'paid'],
  [{ failed_at: day(10), failed_since: day(7), renewed_at: day(7) }, 'payment_failed'],
  [{ partially_refunded_at: day(10), partially_refunded_since: day(7), renewed_at: day(8) }, 'paid'],
  [
    { partially_refunded_at: day(10), partially_refunded_since: day(7), renewed_at: day(7) },
    'partially_refunded',
  ],
  [{ ...inquiry(day(10)), inquiry_closed_at: day(10) }, 'paid'],
]

test.each(events)('after %o the state is %s', (happened, state) => {
  expect(governingPurchase([{ ...valid, ...happened }], null, day(15).getTime())).toMatchObject({ state })
})

test('a cancelled purchase that is partially refunded later stays cancelled, also after its end', () => {
  const purchase = { ...cancelled, partially_refunded_at: day(10) }
  for (const now of [day(15), day(25)]) {
    expect(governingPurchase([purchase], null, now.getTime())).toMatchObject({
      isValid: false,
      state: 'cancelled',
      uncancelled: 'partially_refunded',
    })
  }
})

test('a customer who buys and is refunded in the second in which an issued licence ended is revoked, known then or later', () => {
  const second = (ms: number) => new Date(day(10).getTime() + ms)
  const issued: Purchase = {
    ...cancelled,
    purchase_ref: 'lic',
    ordered_at: beforeAllPurchases,
    ends_at: second(700),
    bought_ends_at: second(700),
    terminated_at: null,
  }
  // Before and after the issued one in the order of names, with an end of its own in the same second or with none.
  for (const purchase_ref of ['cs', 'sale']) {
    for (const ends_at of [null, second(0), day(20)]) {
      for (const refundedAfter of [0, 1_000]) {
        const bought: Purchase = {
          ...cancelled,
          purchase_ref,
          ordered_at: second(0),
          ends_at,
          bought_ends_at: ends_at,
          terminated_at: second(refundedAfter),
          money_returned: true,
        }
        for (const now of [second(refundedAfter + 300), day(30)]) {
          expect(governingPurchase([issued, bought], null, now.getTime())).toMatchObject({
            current: { purchase_ref },
            isValid: false,
            state: 'refunded',
          })
        }
      }
    }
  }
  // If the issued licence ends in a later second than the refund, it governs the licence until then.
  const later = { ...issued, ends_at: second(2_700), bought_ends_at: second(2_700) }
  const refunded = {
    ...cancelled,
    ordered_at: second(0),
    ends_at: null,
    terminated_at: second(0),
    money_returned: true,
  }
  expect(governingPurchase([later, refunded], null, second(1_000).getTime())).toMatchObject({
    current: { purchase_ref: 'lic' },
    isValid: true,
    state: 'paid',
  })
})
