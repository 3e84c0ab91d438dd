import { eventually } from '@licensing/test-support/poll'
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { expectEveryLook } from './looks.ts'
import { connectProcessor } from './connect-processor.ts'
import { portalTests, type Vendor, type World } from './world.ts'

/** Runs an action at the processor. */
async function atProcessor({ stack }: World, action: string, body: object): Promise<void> {
  const response = await fetch(`${stack.simulator!.url}/_sim/${action}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  expect(response.ok, await response.text()).toBe(true)
}

interface Checkout {
  id: string
  url: string
  status: string
}

async function givenShop(world: World) {
  const { stack, vendor } = world
  const { api } = stack
  await connectProcessor(world)
  const one: Vendor = await vendor()
  const { id: planId } = await one.plan('Pro')
  const price = { price_id: `price_${randomUUID()}`, amount: 4_900, currency: 'eur', mode: 'payment' }
  expect((await api.put(`${one.app}/plans/${planId}/price`, { body: price })).status).toBe(200)
  const open = async (customer: string) => {
    const body = {
      plan_id: planId,
      external_ref: customer,
      success_url: 'https://shop.example.com/thanks',
      cancel_url: 'https://shop.example.com/',
    }
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
  return { ...one, planId, open, pay, status }
}

portalTests('payments', (world) => {
  test('payments, refunds, checkouts and fees appear in the lists, and link to their licence', async () => {
    const shop = await givenShop(world())
    const { stack } = world()
    await using window = await world().open({ at: shop.at('/payments'), bypassCSP: true })
    for (const name of ['Payments', 'Refunds', 'Checkouts', 'Fees']) {
      await window.region(name).getByRole('table', { name, exact: true }).waitFor()
    }
    await window.region('Payments').getByText('Nothing was paid yet').waitFor()
    const session = await shop.open('customer-1')
    await shop.open('customer-2')
    await shop.pay(session)
    // The tables refresh by themselves.
    const paid = window.table('Payments').getByRole('row', { name: 'customer-1' })
    await paid.getByText('€49.00').waitFor()
    await paid.getByText('€0.49').waitFor()
    const checkouts = window.table('Checkouts')
    await checkouts.getByRole('row', { name: 'customer-1' }).getByText('provisioned').waitFor()
    await checkouts.getByRole('row', { name: 'customer-2' }).getByText('open').waitFor()
    const fees = window.table('Fees').getByRole('row', { name: shop.name })
    await fees.getByText('€0.49').waitFor()

    const { body } = await stack.api.get<{ data: { charge_ref: string }[] }>(`${shop.app}/payments`)
    await atProcessor(world(), 'refund', { charge: body.data[0]!.charge_ref })
    await eventually(async () => {
      const { body: refunds } = await stack.api.get<{ data: object[] }>(`${shop.app}/refunds`)
      expect(refunds.data).toMatchObject([{ status: 'succeeded' }])
      const { body: credited } = await stack.api.get<{ data: { kind: string }[] }>('/v1/fees?limit=1')
      expect(credited.data).toMatchObject([{ kind: 'credit' }])
    })
    await window.page.reload()
    const refund = window.table('Refunds').getByRole('row', { name: 'full refund' })
    await refund.getByText('€49.00').waitFor()
    await window.table('Fees').getByText('-€0.49').waitFor()
    await expectEveryLook(window.page, 'payments')
    await window.field('Status').selectOption('open')
    await checkouts.getByRole('row', { name: 'customer-1' }).waitFor({ state: 'detached' })
    expect(await checkouts.getByRole('row', { name: 'customer-2' }).count()).toBe(1)
    await paid.getByRole('link', { name: 'customer-1' }).click()
    await window.heading('customer-1').waitFor()
    const ofLicence = window.region('Payments').getByRole('row', { name: body.data[0]!.charge_ref })
    await ofLicence.getByText('€49.00').first().waitFor()
  })

  test('a failed checkout shows the reason and a Replay button, which provisions after the cause was removed', async () => {
    const shop = await givenShop(world())
    const { stack } = world()
    const session = await shop.open('customer-1')
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
    await alert.getByRole('button', { name: 'Try again' }).click()
    await row.getByText('provisioned').waitFor()
    expect(await shop.status(session.id)).toBe('provisioned')
    expect(await window.button('Replay', row).count()).toBe(0)
    expect(await shop.licences()).toMatchObject([{ external_ref: 'customer-1', status: 'active' }])
  })

  test('the spend cap is shown as a meter, changed in main units, and removed', async () => {
    const { stack, open } = world()
    const cap = async () => (await stack.api.get('/v1/spend-cap')).body
    await stack.api.put('/v1/spend-cap', { body: { cap_minor: null, currency: 'eur' } })
    await using window = await open({ at: '/payments' })
    const { button, field, dialog } = window
    const meter = window.region('Spend cap').getByRole('meter', { name: 'Spend cap' })
    await window.region('Spend cap').getByText('no cap').first().waitFor()
    await button('Change cap').click()
    const form = dialog('Change cap')
    await field('Cap', form).fill('a lot')
    await button('Change', form).click()
    await form.getByText('Enter an amount').waitFor()
    expect(await field('Cap', form).inputValue()).toBe('a lot')
    await field('Cap', form).fill('12,345.60')
    await button('Change', form).click()
    await form.waitFor({ state: 'hidden' })
    expect(await cap()).toMatchObject({ cap_minor: 1_234_560, currency: 'eur', paused: false })
    await eventually(async () => expect(await meter.getAttribute('max')).toBe('1234560'))
    expect(await meter.getAttribute('aria-valuetext')).toContain('of €12,345.60')
    await button('Change cap').click()
    expect(await field('Cap', form).inputValue()).toBe('12345.60')
    await field('Cap', form).fill('0')
    await button('Change', form).click()
    await window.region('Spend cap').getByText('New checkouts are paused').waitFor()
    expect(await cap()).toMatchObject({ cap_minor: 0, paused: true })
    await button('Change cap').click()
    await field('Cap', form).fill('')
    await button('Change', form).click()
    await form.waitFor({ state: 'hidden' })
    expect(await cap()).toMatchObject({ cap_minor: null, paused: false })
  })

  const written = [
    ['huf', 500_000, 'HUF 5,000.00'],
    ['idr', 500_000, 'IDR 5,000.00'],
    ['cop', 500_000, 'COP 5,000.00'],
    ['isk', 500_000, 'ISK 5,000.00'],
    ['ugx', 500_000, 'UGX 5,000.00'],
    ['jpy', 5_000, '¥5,000'],
    ['kwd', 5_000, 'KWD 5.000'],
  ] as const

  test('amounts have the decimals of the processor, even if the browser has other data about the currency', async () => {
    const { stack, open, vendor } = world()
    const { app, at, plan } = await vendor()
    const { id: planId } = await plan('Pro')
    for (const [currency, amount] of written) {
      const body = {
        sale_id: `sale-${currency}`,
        external_ref: `buyer-${currency}`,
        plan_id: planId,
        amount,
        currency,
        occurred_at: new Date().toISOString(),
      }
      expect((await stack.api.post(`${app}/sale-events`, { body })).status).toBe(201)
    }
    await using window = await open({ at: at('/payments') })
    for (const [currency, , text] of written) {
      const row = window.table('Payments').getByRole('row', { name: `buyer-${currency}` })
      const cells = row.getByRole('cell').filter({ hasText: text })
      await cells.first().waitFor()
    }
    await window.page.goto(`${stack.gatewayUrl}/portal${at('')}`)
    for (const [, , text] of written) await window.region('Revenue').getByText(text).first().waitFor()
  })

  test('a spend cap of 5000 HUF is 500000 minor units, and each currency is read with its decimals', async () => {
    const { stack, open } = world()
    const cap = async () => (await stack.api.get('/v1/spend-cap')).body
    await using window = await open({ at: '/payments' })
    const { button, field, dialog } = window
    const form = dialog('Change cap')
    const change = async (amount: string, currency: string) => {
      await button('Change cap').click()
      await field('Cap', form).fill(amount)
      await field('Currency', form).fill(currency)
      await button('Change', form).click()
      await form.waitFor({ state: 'hidden' })
    }
    for (const [currency, minor, text] of written) {
      await change(currency === 'kwd' ? '5' : '5000', currency.toUpperCase())
      expect(await cap()).toMatchObject({ cap_minor: minor, currency })
      await window.region('Spend cap').getByText(`of ${text}`).first().waitFor()
      await button('Change cap').click()
      expect(await field('Cap', form).inputValue()).toBe(text.replaceAll(/[^\d.]/g, ''))
      await window.page.keyboard.press('Escape')
      await form.waitFor({ state: 'hidden' })
    }
    await change('', 'EUR')
  })

  test('a key that may only read sees no cap and no Replay, and a key bound to an application sees no fees', async () => {
    const { stack, open, vendor } = world()
    const { appId, at } = await vendor()
    const made = await stack.api.post<{ key: string }>('/v1/api-keys', {
      body: { name: 'bound', scopes: ['read', 'admin'], app_id: appId },
    })
    for (const [key, regions] of [
      [(await world().key(['read'])).key, ['Payments', 'Refunds', 'Checkouts', 'Fees']],
      [made.body.key, ['Payments', 'Refunds', 'Checkouts']],
    ] as const) {
      await using window = await open({ key, at: at('/payments') })
      await window.table('Checkouts').waitFor()
      expect(
        await window.page.getByRole('main').getByRole('heading', { level: 2 }).allTextContents(),
      ).toEqual(regions)
      expect(window.complaints).toEqual([])
    }
  })
})
