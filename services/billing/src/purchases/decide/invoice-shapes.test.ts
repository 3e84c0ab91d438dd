import { expect, test } from 'vitest'
import type { InvoicePaidFact } from '../../processor/facts.ts'
import { readPaidInvoice } from '../../processor/stripe/read.ts'
import { readItems } from '../../processor/stripe/read-subscription.ts'
import { mergeInvoices } from './merge-facts.ts'
import { PurchasedItem } from './purchased-item.ts'
import { recorded } from '../../../test/histories.ts'

// Invoices as Stripe sends them. The checkout sold `licence`, as the item si_1; a plan is mapped to each of
// `licence`, `team` and `business`.

const prices = new Map([
  ['licence', 'pln_licence'],
  ['team', 'pln_team'],
  ['business', 'pln_business'],
])

const [jan, mid, feb, mar, year, threeYears] = [
  0, 1_296_000, 2_592_000, 5_184_000, 31_536_000, 94_608_000,
].map((seconds) => 1_800_000_000 + seconds) as [number, number, number, number, number, number]

interface LineOptions {
  from?: number
  amount?: number
  proration?: boolean
  /** Whether it refunds part of an earlier line. */
  credit?: boolean
}

function line(item: string, price: string, end: number, options: LineOptions = {}): object {
  const { from = jan, amount = options.credit ? -500 : 1000, credit = false, proration = credit } = options
  return {
    amount,
    period: { start: from, end },
    parent: {
      type: 'subscription_item_details',
      invoice_item_details: null,
      subscription_item_details: {
        invoice_item: proration ? 'ii_1' : null,
        proration,
        proration_details: {
          credited_items: credit ? { invoice: 'in_0', invoice_line_items: ['il_0'] } : null,
        },
        subscription: 'sub_1',
        subscription_item: item,
      },
    },
    pricing: { type: 'price_details', price_details: { price, product: 'prod_1' } },
  }
}

/** An invoice item that the vendor added, with a period of its own. */
function extra(price: string, end: number, from = jan): object {
  return {
    amount: 9000,
    period: { start: from, end },
    parent: {
      type: 'invoice_item_details',
      invoice_item_details: {
        invoice_item: 'ii_2',
        proration: false,
        proration_details: null,
        subscription: 'sub_1',
      },
      subscription_item_details: null,
    },
    pricing: { type: 'price_details', price_details: { price, product: 'prod_2' } },
  }
}

const item = (id: string, price: string, end: number, created = jan): object => ({
  id,
  price: { id: price, object: 'price' },
  current_period_end: end,
  created,
})

type Reason = 'subscription_create' | 'subscription_cycle' | 'subscription_update'

interface Shape {
  reason: Reason
  lines: object[]
  hasMore?: boolean
  /** The subscription's items, if the processor was asked for the invoice. */
  items?: object[]
}

const create = (...lines: object[]): Shape => ({ reason: 'subscription_create', lines })
const cycle = (...lines: object[]): Shape => ({ reason: 'subscription_cycle', lines })
const update = (...lines: object[]): Shape => ({ reason: 'subscription_update', lines })
const asked = (shape: Shape, ...items: object[]): Shape => ({ ...shape, items })

const first = create(line('si_1', 'licence', feb))
const ownItem = item('si_1', 'licence', feb)
const addOn = item('si_2', 'storage', feb)
const next = { from: feb }
const changed = { from: mid, proration: true }
const unused = { from: mid, credit: true }
const renewed = line('si_1', 'licence', mar, next)
const addOnForYear = line('si_2', 'storage', year)
const credited = line('si_1', 'licence', feb, unused)
const upgraded = line('si_1', 'team', feb, changed)
const swapped = line('si_3', 'team', feb, changed)

/** `wait`: the processor is asked. `none`: the invoice changes nothing. */
const shapes: [string, Shape[], string][] = [
  ['a first invoice', [first], `licence ${feb}`],
  ['a renewal', [first, cycle(renewed)], `licence ${mar}`],
  ['a renewal before its first invoice', [cycle(renewed)], `licence ${mar}`],
  [
    'a first invoice with an add-on for a year, before the licence’s line',
    [create(addOnForYear, line('si_1', 'licence', feb))],
    `licence ${feb}`,
  ],
  [
    'a first invoice at another price, which the customer chose at the checkout',
    [create(line('si_1', 'licence-yearly', year))],
    `licence-yearly ${year}`,
  ],
  [
    'a first invoice at another price that is mapped, beside an add-on',
    [create(addOnForYear, line('si_1', 'team', feb))],
    `team ${feb}`,
  ],
  [
    'a renewal beside an invoice item for three years whose price a plan is mapped to',
    [first, cycle(extra('team', threeYears), renewed)],
    `licence ${mar}`,
  ],
  ['an invoice with only invoice items', [first, cycle(extra('team', threeYears))], 'none'],
  ['a renewal beside an add-on for a year', [first, cycle(addOnForYear, renewed)], `licence ${mar}`],
  [
    'a renewal beside an item that another plan is mapped to',
    [first, cycle(line('si_2', 'team', year), renewed)],
    `licence ${mar}`,
  ],
  [
    'lines that the event does not contain',
    [first, { ...cycle(extra('support', feb)), hasMore: true }],
    'wait',
  ],
  [
    'lines that the event does not contain, although it contains one of the licence',
    [first, { ...cycle(line('si_1', 'licence', feb, changed)), hasMore: true }],
    'wait',
  ],
  ['an item added', [first, asked(update(line('si_2', 'storage', year, changed)), ownItem, addOn)], 'none'],
  ['an item added, before the processor is asked', [first, update(addOnForYear)], 'wait'],
  [
    'an item added that another plan is mapped to',
    [first, asked(update(line('si_2', 'team', year, changed)), ownItem, item('si_2', 'team', year, mid))],
    'none',
  ],
  ['an add-on removed', [first, update(line('si_2', 'storage', feb, unused))], 'none'],
  ['an upgrade of the item’s price, prorated', [first, update(credited, upgraded)], `team ${feb}`],
  [
    'an upgrade of the item’s price, with the lines in the other order',
    [first, update(upgraded, credited)],
    `team ${feb}`,
  ],
  [
    'two changes of the price in one period',
    [
      first,
      update(
        line('si_1', 'business', feb, { ...changed, from: mid + 60 }),
        line('si_1', 'team', feb, { ...unused, from: mid + 60 }),
        upgraded,
        credited,
      ),
    ],
    `business ${feb}`,
  ],
  [
    'a renewal with prorations that waited for it',
    [first, cycle(credited, upgraded, line('si_1', 'team', mar, next))],
    `team ${mar}`,
  ],
  [
    'a change from a year to a month',
    [
      create(line('si_1', 'licence', year)),
      update(line('si_1', 'licence', year, unused), line('si_1', 'team', mar)),
    ],
    `team ${mar}`,
  ],
  [
    'a credit of zero, of a price that was free',
    [first, update(line('si_1', 'licence', year, { ...unused, amount: 0 }), upgraded)],
    `team ${feb}`,
  ],
  [
    'a renewal after the price was changed without proration',
    [first, cycle(line('si_1', 'team', mar, next))],
    `team ${mar}`,
  ],
  [
    'an item swapped for one that a plan is mapped to',
    [first, asked(update(credited, swapped), item('si_3', 'team', feb, mid))],
    `team ${feb}`,
  ],
  ['an item swapped, before the processor is asked', [first, update(credited, swapped)], 'wait'],
  [
    'an item swapped, beside an older one that a plan is mapped to as well',
    [
      create(line('si_2', 'team', feb), line('si_1', 'licence', feb)),
      asked(
        cycle(line('si_2', 'team', mar, next), line('si_3', 'business', mar, next)),
        item('si_2', 'team', mar),
        item('si_3', 'business', mar, mid),
      ),
    ],
    `business ${mar}`,
  ],
  [
    'an item swapped for the only item, which no plan is mapped to',
    [first, asked(cycle(line('si_3', 'licence-2', mar, next)), item('si_3', 'licence-2', mar, mid))],
    `licence-2 ${mar}`,
  ],
  [
    'an item swapped for one that no plan is mapped to, beside an add-on',
    [
      first,
      asked(
        cycle(line('si_3', 'licence-2', mar, next), addOnForYear),
        item('si_3', 'licence-2', mar, mid),
        addOn,
      ),
    ],
    'none',
  ],
  [
    'an item removed and added again at the same price',
    [first, cycle(line('si_9', 'licence', mar, next))],
    `licence ${mar}`,
  ],
  [
    'an item removed, with an add-on that continues',
    [first, asked(cycle(addOnForYear), addOn, item('si_4', 'seats', year))],
    'none',
  ],
  [
    'a trial that begins with the subscription',
    [create(line('si_1', 'licence', mid, { amount: 0 }))],
    `licence ${mid}`,
  ],
  [
    'a trial of a subscription that was paid before',
    [first, update(credited, line('si_1', 'licence', mar, { from: mid, amount: 0 }))],
    `licence ${mar}`,
  ],
  [
    'an invoice of zero',
    [first, cycle(line('si_1', 'licence', mar, { ...next, amount: 0 }))],
    `licence ${mar}`,
  ],
  ['the yearly cycle of only an add-on', [first, asked(cycle(addOnForYear), ownItem, addOn)], 'none'],
]

test.each(shapes)('%s: the line for the purchase counts', (_, invoices, expected) => {
  const facts = invoices.map((invoice, index) => recorded(factOf(invoice, index), 0))
  for (const order of [facts, facts.toReversed()]) {
    const folded = mergeInvoices(order, undefined, new PurchasedItem('licence', prices))
    expect(folded).toHaveLength(invoices.length)
    const { isRead, priceRef, periodEnd } = folded.at(-1)!
    const outcome = periodEnd === undefined ? 'none' : `${priceRef} ${periodEnd / 1000}`
    expect(isRead ? outcome : 'wait').toBe(expected)
  }
})

test('an invoice only for other items is no cycle of the purchase, so its refund does not end the purchase', () => {
  const alone = asked(cycle(addOnForYear), ownItem, addOn)
  const facts = [first, alone].map((invoice, index) => recorded(factOf(invoice, index), 0))
  const folded = mergeInvoices(facts, undefined, new PurchasedItem('licence', prices))
  expect(folded.map(({ reason }) => reason)).toEqual(['first', 'proration'])
})

function factOf({ reason, lines, hasMore = false, items }: Shape, index: number): InvoicePaidFact {
  const invoice = {
    id: `in_${index}`,
    billing_reason: reason,
    amount_paid: 1000,
    currency: 'usd',
    parent: { subscription_details: { subscription: 'sub_1', metadata: {} } },
    status_transitions: { paid_at: jan + index },
    lines: { object: 'list', data: lines, has_more: hasMore },
  }
  return readPaidInvoice(invoice, 0, items && readItems(items as Record<string, unknown>[]))!
}
