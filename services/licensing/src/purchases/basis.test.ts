import { expect, test } from 'vitest'
import { basisOf } from './basis.ts'
import type { Basis } from './basis.ts'
import type { Purchase, RecordedEffect } from './purchase.ts'

const day = (n: number) => new Date(Date.UTC(2026, 0, n))

const canceled: Purchase = {
  application_id: 'app',
  purchase_ref: 'cs',
  account_id: 'acct',
  licence_id: 'lic',
  ordered_at: day(1),
  plan_id: 'pln',
  snapshot_id: 'snap',
  ends_at: day(20),
  bought_plan_id: 'pln',
  bought_snapshot_id: 'snap',
  bought_ends_at: day(20),
  terminated_at: day(5),
  money_returned: false,
  renews: false,
  updates_until: null,
  metadata: {},
}

const effect = (purchase_ref: string, kind: RecordedEffect['kind'], at: Date): RecordedEffect => {
  const brings = { ends_at: null, plan_id: null, snapshot_id: null, updates_until: null }
  return { purchase_ref, kind, cause: 're', at, ...brings }
}

const ofOneSecond: [RecordedEffect['kind'], RecordedEffect['kind'], Basis['decisive']][] = [
  ['renewed', 'payment_failed', 'payment_failed'],
  ['renewed', 'partially_refunded', 'partially_refunded'],
  ['payment_failed', 'inquiry_opened', 'payment_failed'],
  ['inquiry_opened', 'inquiry_closed', 'paid'],
]

test.each(ofOneSecond)('%s counts before %s of the same second, whatever their causes', (...row) => {
  const [first, second, decisive] = row
  const valid = { ...canceled, terminated_at: null }
  for (const [cause, other] of [
    ['a', 'b'],
    ['b', 'a'],
  ] as const) {
    const effects = [
      { ...effect('cs', second, day(10)), cause: other },
      { ...effect('cs', first, day(10)), cause },
    ]
    expect(basisOf([valid], effects, null, day(15).getTime())).toMatchObject({ decisive })
  }
})

test('an end that passes after a cancellation changes nothing more', () => {
  const effects = [effect('cs', 'partially_refunded', day(10))]
  for (const now of [day(15), day(25)]) {
    expect(basisOf([canceled], effects, null, now.getTime())).toMatchObject({
      isValid: false,
      decisive: 'partially_refunded',
    })
  }
})

test('a customer who buys and is refunded in the second in which an issued licence ended is revoked, known then or later', () => {
  const second = (ms: number) => new Date(day(10).getTime() + ms)
  const issued: Purchase = {
    ...canceled,
    purchase_ref: 'lic',
    ordered_at: null,
    ends_at: second(700),
    bought_ends_at: second(700),
    terminated_at: null,
  }
  // Before and after the issued one in the order of names, with an end of its own in the same second or with none.
  for (const purchase_ref of ['cs', 'sale']) {
    for (const ends_at of [null, second(0), day(20)]) {
      for (const refundedAfter of [0, 1_000]) {
        const bought: Purchase = {
          ...canceled,
          purchase_ref,
          ordered_at: second(0),
          ends_at,
          bought_ends_at: ends_at,
          terminated_at: second(refundedAfter),
          money_returned: true,
        }
        const effects = [effect(purchase_ref, 'refunded', bought.terminated_at!)]
        for (const now of [second(refundedAfter + 300), day(30)]) {
          expect(basisOf([issued, bought], effects, null, now.getTime())).toMatchObject({
            current: { purchase_ref },
            isValid: false,
            decisive: 'refunded',
          })
        }
      }
    }
  }
  // If the issued licence ends in a later second than the refund, the licence rests on it until then.
  const later = { ...issued, ends_at: second(2_700), bought_ends_at: second(2_700) }
  const refunded = {
    ...canceled,
    ordered_at: second(0),
    ends_at: null,
    terminated_at: second(0),
    money_returned: true,
  }
  expect(basisOf([later, refunded], [], null, second(1_000).getTime())).toMatchObject({
    current: { purchase_ref: 'lic' },
    isValid: true,
    decisive: 'paid',
  })
})
