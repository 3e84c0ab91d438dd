import { ServiceError } from '@licensing/grpc/errors'
import { expect, test } from 'vitest'
import { sharedHarness } from '../../test/harness.ts'
import { handled, openCheckouts, pay, statusOf } from '../../test/shop.ts'

const harness = await sharedHarness()

// As grpc-js reports it.
const deadlineExceeded = 4

test('a batch that licensing does not answer in time is halved until the purchase that takes too long is alone, apart from other accounts', async () => {
  const [slow, quick] = [await harness.givenVendor(), await harness.givenVendor()]
  const ofSlow = await openCheckouts(harness, slow, 8)
  const ofQuick = await openCheckouts(harness, quick, 8)
  const stuck = ofSlow[3]!.id
  const batches: { size: number; accounts: number }[] = []
  const { deps } = harness
  const { purchases } = deps
  const applied = new Set<string>()
  const released = Promise.withResolvers<void>()
  deps.purchases = {
    async applyPurchaseEffects(request) {
      const effects = request.effects ?? []
      const refs = effects.map((effect) => effect.purchaseRef)
      if (refs.includes(stuck) && batches.at(-1)?.size !== 1) {
        const accounts = new Set(effects.map((effect) => effect.accountId))
        batches.push({ size: refs.length, accounts: accounts.size })
        if (refs.length === 1) released.resolve()
        throw new ServiceError('unavailable', 'late', { cause: { code: deadlineExceeded } })
      }
      const answer = await purchases.applyPurchaseEffects(request)
      for (const ref of refs) applied.add(ref)
      return answer
    },
  }
  try {
    await Promise.all([...ofSlow, ...ofQuick].map((session) => pay(harness, session)))
    await released.promise
    // The other account has been served meanwhile.
    for (const { id } of ofQuick) expect(applied).toContain(id)
    for (const [at, { size, accounts }] of batches.entries()) {
      if (at === 0) continue
      expect(accounts).toBe(1)
      expect(size).toBeLessThanOrEqual(Math.max(1, batches[at - 1]!.size / 2))
    }
    for (const vendor of [slow, quick]) await handled(harness, vendor)
    expect(await statusOf(harness, slow, stuck)).toBe('provisioned')
  } finally {
    deps.purchases = purchases
  }
})
