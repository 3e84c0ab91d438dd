import { ServiceError } from '@licensing/grpc/errors'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { sharedHarness } from '../../test/harness.ts'
import { handled, openCheckouts, pay, statusOf } from '../../test/shop.ts'

const harness = await sharedHarness()

// As grpc-js reports it.
const deadlineExceeded = 4

test('the purchases of a batch that licensing does not answer in time are sent alone, so that a purchase that takes too long delays no other account', async () => {
  const [slow, quick] = [await harness.givenVendor(), await harness.givenVendor()]
  const ofSlow = await openCheckouts(harness, slow, 8)
  const ofQuick = await openCheckouts(harness, quick, 8)
  const stuck = ofSlow[3]!.id
  const sizes: number[] = []
  const { deps } = harness
  const { purchases } = deps
  const applied = new Set<string>()
  const isQuickServed = () => ofQuick.every(({ id }) => applied.has(id))
  deps.purchases = {
    async applyPurchaseEffects(request) {
      const effects = request.effects ?? []
      const refs = effects.map((effect) => effect.purchaseRef)
      if (refs.includes(stuck) && !isQuickServed()) {
        sizes.push(refs.length)
        throw new ServiceError('unavailable', 'late', { cause: { code: deadlineExceeded } })
      }
      const answer = await purchases.applyPurchaseEffects(request)
      for (const ref of refs) applied.add(ref)
      return answer
    },
  }
  try {
    await Promise.all([...ofSlow, ...ofQuick].map((session) => pay(harness, session)))
    await eventually(() => expect(isQuickServed()).toBe(true))
    expect(sizes.slice(1)).toEqual(sizes.slice(1).map(() => 1))
    for (const vendor of [slow, quick]) await handled(harness, vendor)
    expect(await statusOf(harness, slow, stuck)).toBe('provisioned')
  } finally {
    deps.purchases = purchases
  }
})
