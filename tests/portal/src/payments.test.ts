import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { expectAccessible } from './looks.ts'
import { atProcessor, connectProcessor } from './processor.ts'
import { portalTests, type World } from './world.ts'

interface Checkout {
  id: string
  url: string
  status: string
}

/** A vendor with a plan that can be sold. */
async function givenShop(world: World) {
  const { api } = world.stack
  await connectProcessor(world)
  const one = await world.vendor()
  const { id: planId } = await one.plan('Pro')
  await one.price(planId)
  const checkOut = async (customer: string) => {
    const shop = 'https://shop.example.com/'
    const body = { plan_id: planId, external_ref: customer, success_url: shop, cancel_url: shop }
    const answer = await api.post<Checkout>(`${one.app}/checkout-sessions`, { body })
    expect(answer.status, JSON.stringify(answer.body)).toBe(201)
    return answer.body
  }
  const status = async (id: string) =>
    (await api.get<Checkout>(`${one.app}/checkout-sessions/${id}`)).body.status
  const pay = async (session: Checkout, becomes = 'provisioned') => {
    await atProcessor(world, 'pay', { session: new URL(session.url).pathname.split('/').at(-1) })
    await eventually(async () => expect(await status(session.id)).toBe(becomes))
  }
  return { ...one, planId, checkOut, pay }
}

const written = [
  ['huf', 500_000, 'HUF 5,000.00'],
  ['isk', 500_000, 'ISK 5,000.00'],
  ['ugx', 500_000, 'UGX 5,000.00'],
  ['jpy', 5_000, '¥5,000'],
  ['kwd', 5_000, 'KWD 5.000'],
] as const

portalTests('payments', (world) => {
  test('payments, refunds, checkouts and fees appear in the lists, and link to their licence', async () => {
    const shop = await givenShop(world())
    const { stack } = world()
    await using window = await world().open({ at: shop.at('/payments') })
    const { page, region, table } = window
    await region('Payments').getByText('Nothing was paid yet').waitFor()
    const session = await shop.checkOut('customer-1')
    await shop.checkOut('customer-2')
    await shop.pay(session)
    // The tables refresh by themselves.
    const paid = table('Payments').getByRole('row', { name: 'customer-1' })
    await paid.getByText('€49.00').waitFor()
    await paid.getByText('€0.49').waitFor()
    const checkoutOf = (customer: string) => table('Checkouts').getByRole('row', { name: customer })
    await checkoutOf('customer-1').getByText('provisioned').waitFor()
    await checkoutOf('customer-2').getByText('open').waitFor()
    await table('Fees').getByRole('row', { name: shop.name }).getByText('€0.49').waitFor()

    const { body } = await stack.api.get<{ data: { charge_ref: string }[] }>(`${shop.app}/payments`)
    const { charge_ref: charge } = body.data[0]!
    await atProcessor(world(), 'refund', { charge })
    await eventually(async () => {
      const { body: refunds } = await stack.api.get<{ data: object[] }>(`${shop.app}/refunds`)
      expect(refunds.data).toMatchObject([{ status: 'succeeded' }])
      const { body: credited } = await stack.api.get<{ data: { kind: string }[] }>('/v1/fees?limit=1')
      expect(credited.data).toMatchObject([{ kind: 'credit' }])
    })
    await page.reload()
    await table('Refunds').getByRole('row', { name: 'full refund' }).getByText('€49.00').waitFor()
    await table('Fees').getByText('-€0.49').waitFor()
    await expectAccessible(page, 'payments')
    await window.field('Status').selectOption('open')
    await checkoutOf('customer-1').waitFor({ state: 'detached' })
    expect(await checkoutOf('customer-2').count()).toBe(1)
    await paid.getByRole('link', { name: 'customer-1' }).click()
    await window.heading('customer-1').waitFor()
    await region('Payments').getByRole('row', { name: charge }).getByText('€49.00').first().waitFor()
  })

  test('a payment in another shop shows the ids of its sale and of its renewal, and its refund shows what it is of', async () => {
    const { stack, open, vendor } = world()
    const { app, at, plan, sell } = await vendor()
    const { id: planId } = await plan('Pro')
    const occurred_at = new Date().toISOString()
    await sell(planId, 'customer-1', { sale_id: 'order 4711/A', expires_on: '2031-05-03T00:00:00Z' })
    const report = (what: string, body: object) =>
      stack.api.post(`${app}/sale-events/${encodeURIComponent('order 4711/A')}/${what}`, { body })
    const renewal = {
      renewal_id: 'invoice-2',
      amount: 2_900,
      currency: 'eur',
      expires_on: '2032-05-03T00:00:00Z',
    }
    expect((await report('renewals', { ...renewal, occurred_at })).status).toBe(201)
    const refund = { refund_id: 'adjustment-1', renewal_id: 'invoice-2', amount: 900, occurred_at }
    expect((await report('refunds', refund)).status).toBe(201)
    await using window = await open({ at: at('/payments') })
    const rows = window.table('Payments').getByRole('row').filter({ hasText: 'order 4711/A' })
    await rows.filter({ hasText: 'renewal invoice-2' }).getByText('€29.00').waitFor()
    await rows.filter({ hasNotText: 'renewal' }).getByText('€49.00').waitFor()
    await window.table('Refunds').getByRole('row', { name: 'invoice-2' }).getByText('€9.00').waitFor()
    // Another shop has no page to link to.
    expect(await window.table('Payments').getByRole('link', { name: 'at Stripe' }).count()).toBe(0)
    await expectAccessible(window.page, 'payments-of-a-shop')
  })

  test('a failed checkout shows the reason and a Replay button, which provisions after the cause was removed', async () => {
    const shop = await givenShop(world())
    const { stack } = world()
    const session = await shop.checkOut('customer-1')
    await stack.api.post(`${shop.app}/plans/${shop.planId}/archive`)
    await shop.pay(session, 'provision_failed')
    await using window = await world().open({ at: shop.at('/payments') })
    const row = window.table('Checkouts').getByRole('row', { name: 'customer-1' })
    await row.getByText('provision failed').waitFor()
    await row.getByText('plan archived').waitFor()
    await window.button('Replay', row).click()
    const alert = window.region('Checkouts').getByRole('alert')
    await alert.getByText(/restore/i).waitFor()
    await stack.api.post(`${shop.app}/plans/${shop.planId}/restore`)
    await window.button('Try again', alert).click()
    await row.getByText('provisioned').waitFor()
    expect(await window.button('Replay', row).count()).toBe(0)
    expect(await shop.licences()).toMatchObject([{ external_ref: 'customer-1', status: 'active' }])
  })

  test('the spend cap is shown as a meter, changed in main units with the decimals of its currency, and removed', async () => {
    const { stack, open } = world()
    const cap = async () => (await stack.api.get('/v1/spend-cap')).body
    await stack.api.put('/v1/spend-cap', { body: { cap_minor: null, currency: 'eur' } })
    await using window = await open({ at: '/payments' })
    const { page, region, button, field, dialog } = window
    const meter = region('Spend cap').getByRole('meter', { name: 'Spend cap' })
    const form = dialog('Change cap')
    const change = async (amount: string, currency: string) => {
      await button('Change cap').click()
      await field('Cap', form).fill(amount)
      await field('Currency', form).fill(currency)
      await button('Change', form).click()
      await form.waitFor({ state: 'hidden' })
    }
    await region('Spend cap').getByText('no cap').first().waitFor()
    await change('12,345.60', 'EUR')
    expect(await cap()).toMatchObject({ cap_minor: 1_234_560, currency: 'eur', paused: false })
    await eventually(async () => expect(await meter.getAttribute('max')).toBe('1234560'))
    expect(await meter.getAttribute('aria-valuetext')).toContain('of €12,345.60')
    for (const [currency, minor, text] of written) {
      await change(currency === 'kwd' ? '5' : '5000', currency.toUpperCase())
      expect(await cap()).toMatchObject({ cap_minor: minor, currency })
      await region('Spend cap').getByText(`of ${text}`).first().waitFor()
      await button('Change cap').click()
      expect(await field('Cap', form).inputValue()).toBe(text.replaceAll(/[^\d.]/g, ''))
      await page.keyboard.press('Escape')
      await form.waitFor({ state: 'hidden' })
    }
    await change('0', 'EUR')
    await region('Spend cap').getByText('New checkouts are paused').waitFor()
    expect(await cap()).toMatchObject({ cap_minor: 0, paused: true })
    await change('', 'EUR')
    expect(await cap()).toMatchObject({ cap_minor: null, paused: false })
  })

  test('amounts have the decimals of the processor, even if the browser has other data about the currency', async () => {
    const { stack, open, vendor } = world()
    const { at, plan, sell } = await vendor()
    const { id: planId } = await plan('Pro')
    for (const [currency, amount] of written) await sell(planId, `buyer-${currency}`, { amount, currency })
    await using window = await open({ at: at('/payments') })
    for (const [currency, , text] of written) {
      const row = window.table('Payments').getByRole('row', { name: `buyer-${currency}` })
      await row.getByRole('cell').filter({ hasText: text }).first().waitFor()
    }
    await window.page.goto(`${stack.gatewayUrl}/portal${at('')}`)
    for (const [, , text] of written) await window.region('Revenue').getByText(text).first().waitFor()
  })

  test('payments and refunds are filtered by days and by charge, in the address', async () => {
    const { open, vendor } = world()
    const { at, plan, sell } = await vendor()
    const { id: planId } = await plan('Pro')
    await sell(planId, 'customer-old', { occurred_at: '2026-03-31T23:59:59.999Z' })
    await sell(planId, 'customer-april', { occurred_at: '2026-04-30T23:59:59.999Z' })
    await sell(planId, 'customer-new', { occurred_at: '2026-05-01T00:00:00.000Z' })
    await using window = await open({ at: at('/payments') })
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
    await expectAccessible(page, 'payments-filtered')
  })
})
