import { drawing, drawn } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { sharedHarness } from '../../test/harness.ts'
import { permutations } from '../../test/histories.ts'
import { outcomeOf } from '../../test/outcome.ts'
import { deliver, eventsAt } from '../../test/processor-events.ts'
import { checkoutRefOf, dropEvents, handled, openCheckout, pay } from '../../test/shop.ts'
import type { Vendor } from '../../test/vendor.ts'

const harness = await sharedHarness()

const parts = ['refund 1000', 'refund 3900', 'charge.refunded 1000', 'charge.refunded 4900'] as const
type Part = 'the sale' | (typeof parts)[number]

const orders = permutations([...parts]).flatMap((order): Part[][] => [
  ['the sale', ...order],
  [...order, 'the sale'],
])

/**
 * Refunds a charge of 4900 in two parts within one second, and reports the events in this order. Billing decides after each of
 * them, and cannot read the processor's records.
 */
async function report(vendor: Vendor, order: Part[]): Promise<void> {
  await dropEvents(harness, vendor)
  const session = await openCheckout(harness, vendor)
  const charge = checkoutRefOf(session)
  const created = Math.floor(Date.now() / 1000) - 3_000
  await pay(harness, session, { created })
  const sale = await eventsAt(harness, vendor)
  for (const amount of [1000, 3900]) {
    await harness.simulator.control('refund', { charge, amount, created: created + 60 })
  }
  const later = (await eventsAt(harness, vendor)).slice(sale.length)
  const totals = later.filter((event) => event.type === 'charge.refunded')
  const refunds = later.filter((event) => event.data.object.id.startsWith('re_'))
  const isFirst = (event: (typeof refunds)[number]) => event.data.object.id === refunds[0]!.data.object.id
  const events = {
    'the sale': sale,
    'refund 1000': refunds.filter(isFirst),
    'refund 3900': refunds.filter((event) => !isFirst(event)),
    'charge.refunded 1000': totals.slice(0, 1),
    'charge.refunded 4900': totals.slice(1),
  }
  const account = vendor.connectedAccount
  const fault = { answer: '500', until_cleared: true, path: '/v1/', method: 'GET', account }
  await harness.simulator.control('faults', fault)
  for (const part of order) {
    expect(events[part].length).toBeGreaterThan(0)
    for (const event of events[part]) await deliver(harness, vendor, event)
    await decidedAll(vendor)
  }
}

/** Resolves when everything about the vendor's purchases is decided, though nothing may have been sent. */
async function decidedAll({ accountId, connectedAccount }: Vendor): Promise<void> {
  await eventually(async () => {
    const [row] = await harness.sql`
      select (
        select count(*) from processor_events where merchant = ${`stripe:${connectedAccount}`} and handled_at is null
      )::int + (
        select count(*) from purchases where account_id = ${accountId} and decide_at is not null
      )::int as waiting`
    expect(row).toEqual({ waiting: 0 })
  })
}

test(`a charge whose refunds are decided one by one while licensing is unavailable ends revoked in every order (${drawing})`, async () => {
  const chosen = drawn(orders, 3)
  const vendors = await Promise.all(chosen.map(() => harness.givenVendor()))
  await harness.licensingProcess.stop()
  await Promise.all(chosen.map((order, at) => report(vendors[at]!, order)))
  await harness.licensingProcess.start()
  for (const vendor of vendors) {
    await handled(harness, vendor)
    const { licences, ledger, refunds, sent } = await outcomeOf(harness, vendor)
    const processed = sent.filter((type) => type.startsWith('refund.processed'))
    const listed = refunds.map((refund) => `refund.processed ${refund.replace(' succeeded', '')}`)
    expect({ licences, ledger, processed }).toEqual({
      licences: ['revoked'],
      ledger: ['charge 245', 'credit -245'],
      processed: listed.toSorted(),
    })
    expect(processed.filter((type) => type.includes('full_refund'))).toHaveLength(1)
    expect(refunds.reduce((sum, refund) => sum + Number(refund.split(' ')[1]), 0)).toBe(4900)
    expect(sent.filter((type) => type === 'licence.revoked')).toHaveLength(1)
  }
}, 300_000)
