import type { Stripe } from 'stripe'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  asVendor,
  eventsOf,
  givenPrice,
  givenSession,
  givenSubscription,
  invoicesOf,
  startWorld,
  vendor,
} from '../test/support.ts'
import type { World } from '../test/support.ts'

const started = Date.UTC(2027, 0, 1) / 1000
const [february, march] = [Date.UTC(2027, 1, 1) / 1000, Date.UTC(2027, 2, 1) / 1000]
const half = (started + february) / 2

let world: World
let monthly: string
let extra: string
let yearly: string
beforeAll(async () => {
  world = await startWorld()
  monthly = await givenPrice(world.simulator, { amount: 1000, recurring: 'month' })
  extra = await givenPrice(world.simulator, { amount: 500, recurring: 'month' })
  yearly = await givenPrice(world.simulator, { amount: 20_000, recurring: 'year' })
})
afterAll(() => world[Symbol.asyncDispose]())

const act = <Result extends object>(name: string, how: object): Promise<Result> =>
  world.simulator.control<Result>(name, how)

const latestInvoice = async (subscription: string): Promise<Stripe.Invoice> =>
  (await invoicesOf(world, subscription))[0]!

const linesOf = ({ lines }: Pick<Stripe.Invoice, 'lines'>) =>
  lines.data.map(({ amount, pricing, period }) => [pricing?.price_details?.price, amount, period.end])

test('an invoice has ten lines in an answer and in an event, and the list of its lines has all of them', async () => {
  const { subscription } = await givenSubscription(world, { price: monthly, created: started })
  await act('invoice-item', { subscription, count: 12 })
  await act('renew', { subscription })
  const { id } = await latestInvoice(subscription)
  const invoice = await world.stripe.invoices.retrieve(id, {}, asVendor)
  expect(invoice.lines).toMatchObject({ has_more: true })
  expect(invoice.lines.data).toHaveLength(10)
  expect(invoice.lines.data.every((line) => line.parent?.type === 'invoice_item_details')).toBe(true)
  await world.simulator.settled()
  const paid = eventsOf(world.receiver, 'invoice.paid').at(-1)!.data.object as Stripe.Invoice
  expect(paid).toMatchObject({ id: invoice.id, lines: { has_more: true } })
  expect(paid.lines.data).toHaveLength(10)
  const all: Stripe.InvoiceLineItem[] = []
  for await (const line of world.stripe.invoices.listLineItems(invoice.id, { limit: 5 }, asVendor))
    all.push(line)
  expect(all).toHaveLength(13)
  expect(all.at(-1)).toMatchObject({ amount: 1000, period: { start: february, end: march } })
})

test('an added item is charged for the rest of the period, and a removed item is credited', async () => {
  const { subscription } = await givenSubscription(world, { price: monthly, created: started })
  const { items } = await act<Stripe.Subscription>('add-item', { subscription, price: extra, created: half })
  expect(linesOf(await latestInvoice(subscription))).toEqual([[extra, 250, february]])
  await act('remove-item', { subscription, item: items.data[1]!.id, created: half })
  expect(linesOf(await latestInvoice(subscription))).toEqual([[extra, -250, february]])
  const left = await world.stripe.subscriptionItems.list({ subscription }, asVendor)
  expect(left.data.map(({ price }) => price.id)).toEqual([monthly])
})

test('an item with another interval has its own periods, and is not on the renewals of other items', async () => {
  const { subscription } = await givenSubscription(world, { price: monthly, created: started })
  await act('add-item', { subscription, price: yearly, created: half })
  const nextYear = Date.UTC(2028, 0, 16, 12) / 1000
  expect(linesOf(await latestInvoice(subscription))).toEqual([[yearly, 20_000, nextYear]])
  await act('renew', { subscription })
  expect(linesOf(await latestInvoice(subscription))).toEqual([[monthly, 1000, march]])
})

test.each([
  ['keep_as_draft', 'draft'],
  ['mark_uncollectible', 'uncollectible'],
  ['void', 'void'],
] as const)('while collection is paused with %s, a renewal’s invoice is %s', async (behavior, status) => {
  const { subscription } = await givenSubscription(world, { price: monthly, created: started })
  await act('pause-collection', { subscription, behavior })
  await act('renew', { subscription })
  const kept = await latestInvoice(subscription)
  expect(kept).toMatchObject({ status, amount_paid: 0 })
  await act('pause-collection', { subscription })
  await act('renew', { subscription })
  expect(await latestInvoice(subscription)).toMatchObject({ status: 'paid', amount_paid: 1000 })
  if (status !== 'draft') return
  expect(await act('pay-invoice', { invoice: kept.id })).toMatchObject({ status: 'paid' })
})

test('tax is added to the amount of a checkout and to each invoice', async () => {
  await act('settings', { account: vendor, tax_percent: 19 })
  const { id } = await givenSession(world, { price: await givenPrice(world.simulator) })
  expect(await act('pay', { session: id })).toMatchObject({
    amount_subtotal: 4900,
    amount_total: 5831,
    total_details: { amount_tax: 931 },
  })
  const { subscription, session } = await givenSubscription(world, { price: monthly, created: started })
  expect(session.amount_total).toBe(1190)
  expect(await latestInvoice(subscription)).toMatchObject({ subtotal: 1000, total: 1190, amount_paid: 1190 })
  await act('settings', { account: vendor, tax_percent: 0 })
})
