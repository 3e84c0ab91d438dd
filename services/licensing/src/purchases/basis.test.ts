import { expect, test } from 'vitest'
import { basisOf } from './basis.ts'
import type { Purchase } from './purchase.ts'

const day = (n: number) => new Date(Date.UTC(2026, 0, n))

const cancelled: Purchase = {
  application_id: 'app',
  purchase_ref: 'cs',
  account_id: 'acct',
  licence_id: 'lic',
  ordered_at: day(1),
  plan_id: 'pln',
  snapshot_id: 'snap',
  ends_at: day(20),
  landed_plan_id: 'pln',
  landed_snapshot_id: 'snap',
  landed_ends_at: day(20),
  fell_at: day(5),
  given_back: false,
}

test('an end that passes after a cancellation calls for nothing more', () => {
  const refund = { purchase_ref: 'cs', kind: 'partlyRefunded' as const, cause: 're', at: day(10) }
  const facts = [{ ...refund, ends_at: null, plan_id: null, snapshot_id: null }]
  for (const now of [day(15), day(25)]) {
    expect(basisOf([cancelled], facts, null, now.getTime())).toMatchObject({
      stands: false,
      calls: 'downgraded',
    })
  }
})
