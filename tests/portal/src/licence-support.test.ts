import { eventually } from '@licensing/test-support/poll'
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { connectProcessor } from './connect-processor.ts'
import { expectEveryLook } from './looks.ts'
import { portalTests, type Vendor, type World } from './world.ts'

const today = () =>
  new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'UTC' }).format(new Date())

async function givenPrice({ stack }: World, { app }: Vendor, planId: string, fields: object = {}) {
  const body = {
    price_id: `price_${randomUUID()}`,
    amount: 4_900,
    currency: 'eur',
    mode: 'payment',
    ...fields,
  }
  expect((await stack.api.put(`${app}/plans/${planId}/price`, { body })).status).toBe(200)
}

portalTests('support', (world) => {
  test('the page of a licence begins with its state, since when, why and what to do, with names of keys', async () => {
    const { stack, open, vendor, key } = world()
    const one = await vendor()
    const { id: planId } = await one.plan('Pro')
    const { id } = await one.issue(planId, 'customer-1')
    const support = await key(['read', 'issue', 'revoke'])
    await using window = await open({ at: one.at(`/licences/${id}`), bypassCSP: true })
    const { page, table, button, confirm } = window
    await page
      .getByText(/^Active since .*, when .* issued it\. It never expires: there is nothing to do\.$/)
      .waitFor()
    await stack.api.post(`/v1/licences/${id}/suspend`, { key: support.key })
    await page.reload()
    const sentence = `Suspended since ${today()} because read and issue and revoke suspended it. It becomes active when somebody reactivates it.`
    await page.getByText(sentence).waitFor()
    const entry = table('History').getByRole('row').filter({ hasText: 'suspended' })
    await entry.getByText('read and issue and revoke').waitFor()
    expect(await table('History').textContent()).not.toContain('key_')
    await expectEveryLook(page, 'licence-suspended')
    await stack.api.post(`${one.app}/plans/${planId}/archive`)
    await page.reload()
    await page.getByText('Restore its plan, then reactivate it.').waitFor()
    await stack.api.post(`${one.app}/plans/${planId}/restore`)
    await page.reload()
    await button('Reactivate').click()
    await confirm('Reactivate')
    await page.getByText(/^Active since .*, when .* reactivated it\./).waitFor()
    await button('Revoke').click()
    await confirm('Revoke')
    await page.getByText(/^Revoked since .* because .* revoked it\. That is permanent: /).waitFor()
  })

  test('with a key that may not list keys, the page shows its own name and “another API key”', async () => {
    const { stack, open, vendor, key } = world()
    const one = await vendor()
    const { id } = await one.issue((await one.plan('Pro')).id, 'customer-1')
    const support = await key(['read', 'revoke'])
    await stack.api.post(`/v1/licences/${id}/suspend`, { key: support.key })
    await using window = await open({ key: support.key, at: one.at(`/licences/${id}`) })
    await window.page.getByText('because read and revoke suspended it').waitFor()
    await window
      .table('History')
      .getByRole('row')
      .filter({ hasText: 'issued' })
      .getByText('another API key')
      .waitFor()
    expect(window.complaints).toEqual([])
  })

  test('destructive buttons look different from others before they are pressed', async () => {
    const { open, vendor } = world()
    const one = await vendor()
    const licence = await one.issue((await one.plan('Pro')).id, 'customer-1', {
      expires_on: '2031-01-01T10:00:00.000Z',
    })
    await one.activate(licence, 'one.example.com')
    await using window = await open({ at: one.at(`/licences/${licence.id}`) })
    const { button, page } = window
    const colour = (name: string) =>
      page.evaluate<string>(
        `getComputedStyle([...document.querySelectorAll('main button')].find((one) => one.textContent === '${name}')).color`,
      )
    await button('Free').waitFor()
    const destructive = await Promise.all(['Revoke', 'Retire', 'Free', 'New key'].map(colour))
    expect(new Set(destructive).size).toBe(1)
    for (const name of ['Edit', 'Suspend', 'Copy key', 'Extend by a year']) {
      expect(await colour(name), name).not.toBe(destructive[0])
    }
  })

  test('a sale of 0 changes the plan of a licence once, in the vendor’s currency, and keeps its end', async () => {
    const { stack, open, vendor } = world()
    const one = await vendor()
    await one.define('max_projects', 'limit', '3')
    const pro = await one.plan('Pro')
    const team = await one.plan('Team', [{ key: 'max_projects', value: '50' }])
    await givenPrice(world(), one, team.id, { period_months: 1 })
    const sold = await stack.api.post<{ licence_id: string }>(`${one.app}/sale-events`, {
      body: {
        sale_id: randomUUID(),
        external_ref: 'customer-1',
        plan_id: pro.id,
        amount: 1900,
        currency: 'gbp',
        occurred_at: new Date().toISOString(),
        expires_on: '2031-01-01T10:00:00.000Z',
      },
    })
    const id = sold.body.licence_id
    await using window = await open({ at: one.at(`/licences/${id}`), bypassCSP: true })
    const { page, button, dialog, field, table } = window
    await button('Change plan').click()
    const change = dialog('Change plan')
    await field('New plan', change).selectOption('Team')
    await expectEveryLook(page, 'licence-change-plan')
    // The service executes the call, and its answer is lost.
    await page.route('**/sale-events', async (route) => {
      await route.fetch()
      return route.abort('connectionreset')
    })
    await button('Change plan', change).click()
    await change.getByText('The service cannot be reached.').waitFor()
    await page.unroute('**/sale-events')
    await button('Try again', change).click()
    await change.waitFor({ state: 'hidden' })
    await page.locator('dl').getByRole('link', { name: 'Team' }).waitFor()
    expect(await one.licence(id)).toMatchObject({ plan_id: team.id, expires_on: '2031-01-01T10:00:00.000Z' })
    expect(await one.licences()).toHaveLength(1)
    const sales = await stack.api.get<{ data: object[] }>(`${one.app}/sale-events`)
    expect(sales.body.data).toMatchObject([
      { plan_id: team.id, amount: 0, currency: 'gbp', status: 'provisioned', licence_id: id },
      { plan_id: pro.id },
    ])
    await table('Entitlements')
      .getByRole('row')
      .filter({ hasText: 'max_projects' })
      .getByText('50')
      .first()
      .waitFor()
    await table('History').getByText('plan changed').first().waitFor()
  })

  test('for an older licence of a customer, the dialog does not change the plan but links to the newer licence', async () => {
    const { open, vendor } = world()
    const one = await vendor()
    const { id: planId } = await one.plan('Pro')
    await one.plan('Team')
    const older = await one.issue(planId, 'customer-1')
    const newer = await one.issue(planId, 'customer-1')
    await using window = await open({ at: one.at(`/licences/${older.id}?open=change-plan`) })
    const { page, button, dialog } = window
    const change = dialog('Change plan')
    await change.getByText('has a newer licence').waitFor()
    expect(await button('Change plan', change).getAttribute('aria-disabled')).toBe('true')
    await change.getByRole('link').click()
    await eventually(() => expect(page.url()).toContain(newer.id))
    await eventually(async () =>
      expect(await button('Change plan', change).getAttribute('aria-disabled')).toBeNull(),
    )
  })

  test('a click extends a licence by a month or a year exactly once, even if an answer is lost', async () => {
    const { stack, open, vendor } = world()
    const one = await vendor()
    const { id: planId } = await one.plan('Pro')
    const { id } = await one.issue(planId, 'customer-1', { expires_on: '2031-01-31T10:00:00.000Z' })
    const unlimited = await one.issue(planId, 'customer-2')
    const end = async () => (await one.licence(id)).expires_on
    await using window = await open({ at: one.at(`/licences/${id}`) })
    const { page, button } = window
    await button('Extend by a month').click()
    await eventually(async () => expect(await end()).toBe('2031-02-28T10:00:00.000Z'))
    await page.locator('dl').getByText('28 Feb 2031').waitFor()
    // Somebody else has changed the end meanwhile. The extension counts from the new end.
    await stack.api.patch(`/v1/licences/${id}`, { body: { expires_on: '2032-05-01T10:00:00.000Z' } })
    await page.route('**/v1/licences/*', async (route) => {
      if (route.request().method() !== 'PATCH') return route.fallback()
      await route.fetch()
      return route.abort('connectionreset')
    })
    await button('Extend by a year').click()
    await page.getByRole('main').getByRole('alert').getByText('cannot be reached').waitFor()
    await page.unroute('**/v1/licences/*')
    await button('Try again').click()
    await page.locator('dl').getByText('1 May 2033').waitFor()
    expect(await end()).toBe('2033-05-01T10:00:00.000Z')
    await page.goto(`${stack.gatewayUrl}/portal${one.at(`/licences/${unlimited.id}`)}`)
    await page.locator('dl').getByText('never').waitFor()
    expect(await button('Extend by a year').count()).toBe(0)
  })

  test('a checkout link is created for the customer, shown with its amount and copied, and a charge links to the processor', async () => {
    await connectProcessor(world())
    const { stack, open, vendor } = world()
    const one = await vendor()
    const pro = await one.plan('Pro')
    await givenPrice(world(), one, pro.id)
    const { id } = await one.issue(pro.id, 'customer-1')
    await using window = await open({ at: one.at(`/licences/${id}`), bypassCSP: true })
    const { page, button, dialog, field, table } = window
    await button('Checkout link').click()
    const checkout = dialog('Checkout link')
    await eventually(async () => expect(await field('Plan', checkout).inputValue()).toBe(pro.id))
    await field('Return address', checkout).fill('nowhere')
    await button('Create link', checkout).click()
    await eventually(async () =>
      expect(await field('Return address', checkout).getAttribute('aria-invalid')).toBe('true'),
    )
    await field('Return address', checkout).fill('https://shop.example.com/thanks')
    await button('Create link', checkout).click()
    await checkout.getByText('pays €49.00').waitFor()
    await expectEveryLook(page, 'licence-checkout-link')
    await button('Copy link', checkout).click()
    const url = await page.evaluate<string>('navigator.clipboard.readText()')
    const session = new URL(url).pathname.split('/').at(-1)
    await button('Done', checkout).click()
    const paid = await fetch(`${stack.simulator!.url}/_sim/pay`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ session }),
    })
    expect(paid.ok).toBe(true)
    const payment = await eventually(async () => {
      const { body } = await stack.api.get<{ data: { charge_ref: string; licence_id: string }[] }>(
        `${one.app}/payments`,
      )
      expect(body.data).toMatchObject([{ licence_id: id }])
      expect(body.data[0]!.charge_ref).toMatch(/^ch_/)
      return body.data[0]!
    })
    await page.reload()
    const link = table('Payments').getByRole('link', { name: payment.charge_ref })
    const { body: processor } = await stack.api.get<{ connected_account: string; livemode: boolean }>(
      '/v1/processor',
    )
    const account = `${processor.connected_account}/${processor.livemode ? '' : 'test/'}`
    await eventually(async () =>
      expect(await link.getAttribute('href')).toBe(
        `https://dashboard.stripe.com/${account}payments/${payment.charge_ref}`,
      ),
    )
    expect(await link.getAttribute('rel')).toContain('noreferrer')
    // In this stack the fee of the service is 1 %.
    await page.goto(`${stack.gatewayUrl}/portal${one.at('')}`)
    await window.region('Revenue').getByText('€49.00 gross').waitFor()
    await window.region('Revenue').getByText('€48.51 net').waitFor()
  })
})
