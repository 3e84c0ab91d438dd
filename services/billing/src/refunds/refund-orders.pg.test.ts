import { drawing, drawn } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deliver, eventsAt } from '../../test/charge-story.ts'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { outcomeOf, quiet } from '../../test/outcome.ts'
import { checkoutRefOf, openCheckout, pay } from '../../test/shop.ts'
import type { Vendor } from '../../test/vendor.ts'
import { permutations } from '../../test/histories.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
  // The test delivers each event itself.
  await harness.simulator.control('delivery-rules', { action: 'drop' })
})
afterAll(() => harness[Symbol.asyncDispose]())

const parts = [
  'the sale',
  'refund 1000',
  'refund 3900',
  'charge.refunded 1000',
  'charge.refunded 4900',
] as const

/**
 * Refunds a charge of 4900 in two parts within one second, and reports the events in this order.
 *
 * @param decided a bit for each part: whether billing decides and sends after this part is reported
 * @param records whether the processor's records can be read
 */
async function report(
  vendor: Vendor,
  order: (typeof parts)[number][],
  decided: number,
  records: 'read' | 'unavailable',
  settled: (vendor: Vendor) => Promise<void> = (each) => quiet(harness, each),
): Promise<void> {
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
  const [first] = refunds
  const isFirst = (event: (typeof refunds)[number]) => event.data.object.id === first!.data.object.id
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

async function expectRevoked(vendor: Vendor, about: object): Promise<void> {
  const { licences, ledger, refunds, sent } = await outcomeOf(harness, vendor)
  const processed = sent.filter((type) => type.startsWith('refund.processed'))
  const listed = refunds.map((refund) => `refund.processed ${refund.replace(' succeeded', '')}`)
  expect({ about, licences, ledger, processed }).toEqual({
    about,
    licences: ['revoked '],
    ledger: ['charge 245', 'credit -245'],
    processed: listed.toSorted(),
  })
  expect(processed.filter((type) => type.includes('full_refund'))).toHaveLength(1)
  expect(refunds.reduce((sum, refund) => sum + Number(refund.split(' ')[1]), 0)).toBe(4900)
  expect(sent.filter((type) => type === 'licence.revoked')).toHaveLength(1)
}

test.each(['read', 'unavailable'] as const)(
  `a charge that is refunded in two parts of one second ends revoked in every order of reports; the processor’s records are %s (${drawing})`,
  async (records) => {
    const orders = permutations([...parts])
    // Half of the orders are for each row, and each order has different moments of decision.
    const some = orders.map((order, at) => ({ order, decided: (at * 7) % 32 }))
    const half = some.filter((_, at) => at % 2 === (records === 'read' ? 0 : 1))
    const chosen = drawn(half, 12)
    const inTurn = async (mine: typeof chosen) => {
      for (const { order, decided } of mine) {
        const vendor = await harness.givenVendor()
        await report(vendor, order, decided, records)
        await expectRevoked(vendor, { order, decided })
      }
    }
    const workers = 12
    await Promise.all(
      Array.from({ length: workers }, (_, worker) =>
        inTurn(chosen.filter((_one, at) => at % workers === worker)),
      ),
    )
  },
  300_000,
)

test(`a charge whose refunds are decided one by one while licensing is unavailable ends revoked in every order (${drawing})`, async () => {
  const [sale, ...refunds] = parts
  const every = permutations(refunds).flatMap((order) => [
    [sale, ...order],
    [...order, sale],
  ])
  const orders = drawn(every, 8)
  const vendors = await Promise.all(orders.map(() => harness.givenVendor()))
  await harness.licensingProcess.stop()
  await Promise.all(orders.map((order, at) => report(vendors[at]!, order, 31, 'unavailable', decidedAll)))
  await harness.licensingProcess.start()
  for (const [at, vendor] of vendors.entries()) {
    await quiet(harness, vendor)
    await expectRevoked(vendor, { order: orders[at] })
  }
}, 300_000)
