import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startHarness } from '../../../test/harness.ts'
import type { Harness } from '../../../test/harness.ts'
import {
  handled,
  licenceOf,
  licencesOf,
  openCheckout,
  pay,
  scope,
  sentTypes,
  statusOf,
} from '../../../test/shop.ts'
import type { Vendor } from '../../../test/vendor.ts'
import { recordSaleEvent } from '../../sale-events/record-sale-event.ts'
import { provisionAgain, replay } from './send-effects.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

/** A replica that gets the answers of licensing late: when `release` is called. */
function lateReplica() {
  const [answered, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const { purchases } = harness.deps
  const applyPurchaseEffects: typeof purchases.applyPurchaseEffects = async (request) => {
    const answer = await purchases.applyPurchaseEffects(request)
    answered.resolve()
    await released.promise
    return answer
  }
  const deps = { ...harness.deps, purchases: { ...purchases, applyPurchaseEffects } }
  return { deps, answered: answered.promise, release: released.resolve }
}

test('a refusal that arrives after another replica has provisioned the sale changes nothing', async () => {
  const vendor = await harness.givenVendor({ price: null })
  const occurredAt = timestampFromDate(new Date())
  const bought = {
    saleId: 'order',
    externalRef: 'customer',
    planId: vendor.planId,
    amount: 100n,
    currency: 'usd',
  }
  const sale = { ...scope(vendor), ...bought, occurredAt, bodyHash: Buffer.alloc(32) }
  await harness.changePlan(vendor.planId, 'retired')
  const late = lateReplica()
  const refused = recordSaleEvent(late.deps, sale as never, undefined)
  await late.answered
  await harness.changePlan(vendor.planId, 'active')
  expect(await harness.billing.recordSaleEvent(sale)).toMatchObject({ saleEvent: { status: 'provisioned' } })

  late.release()
  await refused
  await handled(harness)
  const { saleEvents } = await harness.billing.listSaleEvents({ ...scope(vendor), limit: 1, beforeId: '' })
  expect(saleEvents[0]).toMatchObject({ status: 'provisioned' })
  expect(saleEvents[0]).not.toHaveProperty('failureReason')
  expect(sentTypes(harness, vendor)).toEqual(['licence.created'])
})

test('effects that were refused while another replica provisioned the checkout are sent', async () => {
  const vendor = await harness.givenVendor()
  const session = await openCheckout(harness, vendor)
  await harness.changePlan(vendor.planId, 'retired')
  await pay(harness, session)
  await eventually(async () => expect(await statusOf(harness, vendor, session.id)).toBe('provision_failed'))
  const [refusing, providing] = [lateReplica(), lateReplica()]
  const refused = replay(refusing.deps, session.id).catch(() => undefined)
  await refusing.answered
  await harness.changePlan(vendor.planId, 'active')
  const provided = provisionAgain(providing.deps, session.id)
  await providing.answered
  refusing.release()
  await refused
  await refund(vendor, session.id)

  providing.release()
  await provided
  await handled(harness)
  const [licence] = await licencesOf(harness, vendor)
  expect(await licenceOf(harness, vendor, licence!.id)).toMatchObject({ status: 'revoked' })
})

/** The charge of a checkout is refunded in full, and billing has decided the effect. */
async function refund(vendor: Vendor, sessionId: string): Promise<void> {
  const { payments } = await harness.billing.listPayments({ ...scope(vendor), limit: 1, beforeId: '' })
  await harness.simulator.control('refund', { charge: payments[0]!.chargeRef })
  await eventually(async () => {
    const decided = await harness.sql`
      select from purchase_effects where purchase_ref = ${sessionId} and kind = 'refunded'`
    expect(decided).toHaveLength(1)
  })
}
