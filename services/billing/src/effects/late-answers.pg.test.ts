import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { sharedHarness } from '../../test/harness.ts'
import { handled, licencesOf, openCheckout, pay, scope, sentTypes, statusOf } from '../../test/shop.ts'
import { provisionAgain, replay } from './send-effects.ts'

const harness = await sharedHarness()

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

const oneRow = { limit: 1, beforeId: '' }

test('a refusal that arrives after another replica has provisioned the sale changes nothing', async () => {
  const vendor = await harness.givenVendor({ price: null })
  const { planId } = vendor
  const order = { saleId: 'order', externalRef: 'customer', planId, amount: 100n, currency: 'usd' }
  const when = { occurredAt: timestampFromDate(new Date()), bodyHash: Buffer.alloc(32) }
  const sale = { ...scope(vendor), ...order, ...when }
  await harness.changePlan(planId, 'retired')
  const { saleEvent } = await harness.billing.recordSaleEvent(sale)
  const late = lateReplica()
  const refused = replay(late.deps, saleEvent!.id).catch(() => undefined)
  await late.answered
  await harness.changePlan(planId, 'active')
  expect(await harness.billing.recordSaleEvent(sale)).toMatchObject({ saleEvent: { status: 'provisioned' } })

  late.release()
  await refused
  await handled(harness, vendor)
  const { saleEvents } = await harness.billing.listSaleEvents({ ...scope(vendor), ...oneRow })
  expect(saleEvents[0]!.failureReason).toBeUndefined()
  await eventually(() =>
    expect(sentTypes(harness, vendor)).toEqual(['licence.created', 'payment.provision_failed']),
  )
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
  const { payments } = await harness.billing.listPayments({ ...scope(vendor), ...oneRow })
  await harness.simulator.control('refund', { charge: payments[0]!.chargeRef })
  await eventually(async () => {
    const decided = await harness.sql`
      select from purchase_effects where purchase_ref = ${session.id} and kind = 'refunded'`
    expect(decided).toHaveLength(1)
  })
  providing.release()
  await provided
  await handled(harness, vendor)
  expect(await licencesOf(harness, vendor)).toMatchObject([{ status: 'revoked' }])
})
