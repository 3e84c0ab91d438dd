import { afterAll, expect, test } from 'vitest'
import { asVendor, eventsOf, givenSubscription, idOf, startWorld, vendor } from '../test/support.ts'

const world = await startWorld()
afterAll(() => world[Symbol.asyncDispose]())
const { simulator, stripe, receiver } = world

async function givenPortal() {
  const { subscription } = await givenSubscription(world)
  const current = () => stripe.subscriptions.retrieve(subscription, {}, asVendor)
  const customer = idOf((await current()).customer)
  const open = () =>
    stripe.billingPortal.sessions.create(
      { customer, return_url: 'https://shop.example.com/account' },
      asVendor,
    )
  const { url } = await open()
  const press = (action: string, of = subscription) =>
    fetch(url, {
      method: 'POST',
      body: new URLSearchParams({ action, subscription: of }),
      redirect: 'manual',
    })
  const page = async () => (await fetch(url)).text()
  const heard = (type: string) =>
    eventsOf(receiver, type).filter(({ data }) => (data.object as { id: string }).id === subscription)
  return { subscription, current, customer, open, press, page, heard }
}

test('a customer cancels at the end of the period, undoes it, and cancels at once; each sends its event', async () => {
  const { current, press, page, heard } = await givenPortal()
  expect(await page()).toContain('https://shop.example.com/account')
  await press('period_end')
  expect(await current()).toMatchObject({ status: 'active', cancel_at_period_end: true })
  expect(await page()).toContain('Do not cancel')
  await press('undo')
  expect(await current()).toMatchObject({ cancel_at_period_end: false, cancel_at: null })
  await press('now')
  expect(await current()).toMatchObject({ status: 'canceled' })
  expect(await page()).not.toContain('<button')
  await simulator.settled()
  expect(heard('customer.subscription.updated')).toHaveLength(2)
  expect(heard('customer.subscription.deleted')).toHaveLength(1)
  // From a page that was open in another tab.
  expect((await press('now')).status).toBe(303)
})

test('a new card pays what the card before it did not', async () => {
  const { subscription, current, press } = await givenPortal()
  await simulator.control('fail-invoice', { subscription })
  const before = await current()
  expect(before.status).toBe('past_due')
  await press('card')
  const now = await current()
  expect(now.status).toBe('active')
  expect(now.default_payment_method).not.toBe(before.default_payment_method)
  await simulator.settled()
  const paid = eventsOf(receiver, 'invoice.paid').map(({ data }) => (data.object as { id: string }).id)
  expect(paid).toContain(now.latest_invoice)
})

test('a portal is only for a customer of the account, whose settings for it were saved, and for own subscriptions', async () => {
  const { customer, open, press } = await givenPortal()
  const other = await givenSubscription(world)
  expect((await press('now', other.subscription)).status).toBe(404)
  expect((await press('constructor')).status).toBe(404)
  await expect(
    stripe.billingPortal.sessions.create({ customer }, { stripeAccount: 'acct_another' }),
  ).rejects.toMatchObject({ code: 'resource_missing', param: 'customer' })
  await simulator.control('settings', { account: vendor, billing_portal: false })
  await expect(open()).rejects.toMatchObject({
    statusCode: 400,
    message: expect.stringContaining('default configuration has not been created') as string,
  })
})
