import { drawing, drawn } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { deliver, eventsAt } from '../../test/processor-events.ts'
import { sharedHarness } from '../../test/harness.ts'
import { permutations } from '../../test/histories.ts'
import { outcomeOf } from '../../test/outcome.ts'
import { checkoutRefOf, dropEvents, handled, openCheckout, pay } from '../../test/shop.ts'
import type { Vendor } from '../../test/vendor.ts'

const harness = await sharedHarness()

const parts = [
  'the sale',
  'refund 1000',
  'refund 3900',
  'charge.refunded 1000',
  'charge.refunded 4900',
] as const

interface Case {
  order: (typeof parts)[number][]
  /** A bit for each part: whether billing decides and sends after this part is reported. */
  decided: number
  /** Whether the processor's records can be read. */
  records: 'read' | 'unavailable'
}

/** Refunds a charge of 4900 in two parts within one second, and reports the events in the order of the case. */
async function report(
  vendor: Vendor,
  { order, decided, records }: Case,
  settled: (vendor: Vendor) => Promise<void>,
): Promise<void> {
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
  if (records === 'unavailable') {
    const account = vendor.connectedAccount
    const fault = { answer: '500', until_cleared: true, path: '/v1/', method: 'GET', account }
    await harness.simulator.control('faults', fault)
  }
  for (const [at, part] of order.entries()) {
    expect(events[part].length).toBeGreaterThan(0)
    for (const event of events[part]) await deliver(harness, vendor, event)
    if (decided & (1 << at)) await settled(vendor)
  }
  await settled(vendor)
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

async function expectRevoked(vendor: Vendor): Promise<void> {
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

// Half of the orders are with and half without the processor's records, and each order has different moments of decision.
const cases = permutations([...parts]).map((order, at): Case => {
  return { order, decided: (at * 7) % 32, records: at % 2 === 0 ? 'read' : 'unavailable' }
})

test.concurrent.each(drawn(cases, 12))(
  `a charge that is refunded in two parts of one second ends revoked, reported as $order; decisions $decided, the processor’s records are $records (${drawing})`,
  async (one) => {
    const vendor = await harness.givenVendor()
    await report(vendor, one, (each) => handled(harness, each))
    await expectRevoked(vendor)
  },
)

test(`a charge whose refunds are decided one by one while licensing is unavailable ends revoked in every order (${drawing})`, async () => {
  const [sale, ...refunds] = parts
  const every = permutations(refunds).flatMap((order): Case[] =>
    [
      [sale, ...order],
      [...order, sale],
    ].map((each) => ({ order: each, decided: 31, records: 'unavailable' })),
  )
  const orders = drawn(every, 6)
  const vendors = await Promise.all(orders.map(() => harness.givenVendor()))
  await harness.licensingProcess.stop()
  await Promise.all(orders.map((order, at) => report(vendors[at]!, order, decidedAll)))
  await harness.licensingProcess.start()
  for (const vendor of vendors) await expectRevoked(vendor)
}, 300_000)
