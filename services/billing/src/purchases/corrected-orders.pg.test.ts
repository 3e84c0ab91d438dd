import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { sharedHarness } from '../../test/harness.ts'
import { givenSold } from '../../test/shop.ts'
import { recordFacts } from '../facts/record-facts.ts'

const harness = await sharedHarness()

test('each correction of the time of the first charge reaches licensing', async () => {
  const vendor = await harness.givenVendor()
  const { session, charge } = await givenSold(harness, vendor)
  const [paid] = await harness.sql<{ payment_ref: string; charged_at: Date }[]>`
    select payment_ref, charged_at from payments where charge_ref = ${charge}`
  const { payment_ref: paymentRef, charged_at: first } = paid!
  for (const minutes of [1, 2, 3]) {
    const chargedAt = first.getTime() + minutes * 60_000
    const fact = {
      kind: 'charge' as const,
      chargeRef: `ch_later_${minutes}`,
      paymentRef,
      amount: 4900,
      currency: 'usd',
      chargedAt,
      refunded: 0,
      reportedAt: chargedAt,
    }
    const merchant = `stripe:${vendor.connectedAccount}`
    await harness.deps.change((tx) => recordFacts(tx, [{ merchant, sourceKey: fact.chargeRef, fact }]))
    harness.deps.wake('decide')
    await eventually(
      async () => {
        const [known] = await harness.licensingSql<{ ordered_at: Date }[]>`
          select ordered_at from purchases where purchase_ref = ${session.id}`
        expect(known!.ordered_at).toEqual(new Date(chargedAt))
      },
      { timeoutMs: 15_000 },
    )
  }
})
