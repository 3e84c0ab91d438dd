import { eventually } from '@licensing/test-support/poll'
import { awaitTurn } from '@licensing/test-support/turn-of-day'
import { expect, test } from 'vitest'
import { expectEveryLook } from './looks.ts'
import { portalTests, type Vendor, type World } from './world.ts'

const DAY_MS = 86_400_000
const daysAgo = (days: number) => new Date(Date.now() - days * DAY_MS).toISOString()

async function sell(
  { stack }: World,
  { app }: Vendor,
  planId: string,
  fields: { customer: string; at: string } & object,
) {
  const { customer, at, ...others } = fields
  const body = {
    sale_id: `sale-${customer}`,
    external_ref: customer,
    plan_id: planId,
    amount: 4900,
    currency: 'eur',
    occurred_at: at,
    ...others,
  }
  expect((await stack.api.post(`${app}/sale-events`, { body })).status).toBe(201)
}

const unavailable = JSON.stringify({ code: 'unavailable', status: 503, detail: 'it cannot be read now' })

portalTests('money', (world) => {
  test('payments and refunds are filtered by days and by charge, in the address', async () => {
    const { open, vendor } = world()
    const one = await vendor()
    const { id: planId } = await one.plan('Pro')
    await sell(world(), one, planId, { customer: 'customer-old', at: '2026-03-31T23:59:59.999Z' })
    await sell(world(), one, planId, { customer: 'customer-april', at: '2026-04-30T23:59:59.999Z' })
    await sell(world(), one, planId, { customer: 'customer-new', at: '2026-05-01T00:00:00.000Z' })
    await using window = await open({ at: one.at('/payments'), bypassCSP: true })
    const { page, field, table } = window
    const customers = async (...expected: string[]) =>
      eventually(async () => {
        const links = table('Payments').getByRole('link', { name: /^customer-/ })
        expect((await links.allTextContents()).sort()).toEqual(expected)
      })
    await customers('customer-april', 'customer-new', 'customer-old')
    await field('From').fill('2026-04-01')
    await customers('customer-april', 'customer-new')
    // The last day is included.
    await field('To').fill('2026-04-30')
    await customers('customer-april')
    await page.reload()
    await customers('customer-april')
    await page.getByText('No refund matches these filters.').waitFor()
    await field('Charge').fill('ch_unknown')
    await field('Charge').press('Enter')
    await page.getByText('No payment matches these filters.').waitFor()
    expect(new URL(page.url()).searchParams.get('charge')).toBe('ch_unknown')
    await expectEveryLook(page, 'payments-filtered')
  })

  test('the overview shows 7, 30 or 90 days, kept in the address, with net and gross revenue and a scale', async () => {
    await awaitTurn('day')
    const { open, vendor } = world()
    const one = await vendor()
    const { id: planId } = await one.plan('Pro')
    await sell(world(), one, planId, { customer: 'customer-1', at: daysAgo(1) })
    await sell(world(), one, planId, { customer: 'customer-2', at: daysAgo(20) })
    await sell(world(), one, planId, { customer: 'customer-3', at: daysAgo(80) })
    await using window = await open({ at: one.at(''), bypassCSP: true })
    const { page, region, button, table } = window
    const revenue = region('Revenue')
    const days = async (period: string, rows: number, total: string) => {
      await button(period).click()
      await revenue.getByText(`${total} gross`).waitFor()
      await revenue.getByText(`${total} net`).waitFor()
      await button('Show as table', revenue).click()
      await eventually(async () => expect(await table('Revenue').getByRole('row').count()).toBe(rows + 1))
      await button('Show as table', revenue).click()
    }
    await revenue.getByText('€98.00 gross').waitFor()
    // The scale has round numbers and starts at zero.
    for (const mark of ['€0.00', '€20.00', '€40.00', '€60.00'])
      await revenue.getByText(mark, { exact: true }).waitFor({ state: 'attached' })
    await days('7 days', 7, '€49.00')
    await days('90 days', 90, '€147.00')
    expect(new URL(page.url()).searchParams.get('days')).toBe('90')
    await page.reload()
    await revenue.getByText('in the last 90 days').waitFor()
    expect(await button('90 days').getAttribute('aria-pressed')).toBe('true')
    await expectEveryLook(page, 'overview-90')
    await button('30 days').click()
    await expectEveryLook(page, 'overview-30')
  })

  test('if a number of the overview could not be read again, it shows its age', async () => {
    const { open, vendor } = world()
    const one = await vendor()
    await one.issue((await one.plan('Pro')).id, 'customer-1')
    await using window = await open({ at: one.at(''), bypassCSP: true })
    const { page, region, button } = window
    const figures = ['Active licences', 'New licences', 'Revenue', 'Webhook deliveries']
    await region('Webhook deliveries').getByText('in the last 30 days').waitFor()
    await page.route('**/metrics?*', (route) =>
      route.fulfill({ status: 503, contentType: 'application/problem+json', body: unavailable }),
    )
    await eventually(async () => {
      await page.evaluate("dispatchEvent(new Event('visibilitychange'))")
      for (const name of figures)
        await region(name)
          .getByText(/read \d+ (second|minute)s? ago/)
          .waitFor({ timeout: 5000 })
    })
    const alert = page.getByRole('main').getByRole('alert')
    await alert.getByText(/What is shown is \d+ (second|minute)s? old/).waitFor()
    await expectEveryLook(page, 'overview-outdated')
    await page.unroute('**/metrics?*')
    await button('Try again', alert).click()
    await alert.waitFor({ state: 'detached' })
    for (const name of figures)
      expect(
        await region(name)
          .getByText(/read .* ago/)
          .count(),
      ).toBe(0)
  })

  test('visible data is read again regularly, and the page says if that fails', async () => {
    const { open, vendor } = world()
    const one = await vendor()
    const { id } = await one.issue((await one.plan('Pro')).id, 'customer-1')
    await using window = await open({ at: '/settings' })
    const { page } = window
    await page.clock.install()
    await page.goto(`${new URL(page.url()).origin}/portal${one.at(`/licences/${id}`)}`)
    await page.getByText(/^Active since/).waitFor()
    await world().stack.api.post(`/v1/licences/${id}/suspend`)
    await page.clock.runFor(31_000)
    await page.getByText(/^Suspended since/).waitFor()
    await page.route('**/v1/**', (route) =>
      route.fulfill({ status: 503, contentType: 'application/problem+json', body: unavailable }),
    )
    await eventually(async () => {
      await page.clock.runFor(31_000)
      expect(await page.getByText('This could not be read again.').count()).toBeGreaterThan(4)
    })
  })
})
