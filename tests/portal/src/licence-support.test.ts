import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { expectAccessible } from './looks.ts'
import { atProcessor, connectProcessor } from './processor.ts'
import { portalTests } from './world.ts'

const today = () =>
  new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'UTC' }).format(new Date())

portalTests('support', (world) => {
  test('the page of a licence begins with its state, since when, why and what to do, with names of keys', async () => {
    const { stack, open, vendor, key } = world()
    const one = await vendor()
    const { id } = await one.issue((await one.plan('Pro')).id, 'customer-1')
    const support = await key(['read', 'issue', 'revoke'])
    await using window = await open({ at: one.at(`/licences/${id}`) })
    const { page, table } = window
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
    await expectAccessible(page, 'licence-suspended')
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
    await one.price(team.id, { period_months: 1 })
    const { licence_id: id } = await one.sell(pro.id, 'customer-1', {
      amount: 1900,
      currency: 'gbp',
      expires_on: '2031-01-01T10:00:00.000Z',
    })
    await using window = await open({ at: one.at(`/licences/${id}`) })
    const { page, button, dialog, field, table } = window
    await button('Change plan').click()
    const change = dialog('Change plan')
    await field('New plan', change).selectOption('Team')
    await expectAccessible(page, 'licence-change-plan')
    await window.loseAnswers('POST', '**/sale-events')
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
      .getByRole('row', { name: /max_projects.*50/ })
      .waitFor()
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
    await window.loseAnswers('PATCH', '**/v1/licences/*')
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

  test('a customer link opens the page of the licence until all sessions are ended, and the history shows who freed a machine', async () => {
    const { stack, open, vendor } = world()
    const one = await vendor()
    const licence = await one.issue((await one.plan('Pro')).id, 'customer-1')
    for (const host of ['one.example', 'two.example']) await one.activate(licence, host)
    await using window = await open({ at: one.at(`/licences/${licence.id}`) })
    const { page, button, dialog, field, table } = window
    await button('Customer link').click()
    const form = dialog('Customer link')
    expect(await field('Minutes', form).inputValue()).toBe('60')
    await field('Minutes', form).fill('4')
    await field('Return address', form).fill('https://shop.example.com/account')
    await button('Create link', form).click()
    await form.getByText('must be at least 5').waitFor()
    await field('Minutes', form).fill('5')
    await window.loseAnswers('POST', '**/customer-sessions')
    await button('Create link', form).click()
    await form.getByText('The service cannot be reached.').waitFor()
    await page.unroute('**/customer-sessions')
    await button('Try again', form).click()
    await form.getByText('It is shown only now.').waitFor()
    await expectAccessible(page, 'licence-customer-link')
    await button('Copy link', form).click()
    const url = await page.evaluate<string>('navigator.clipboard.readText()')
    await button('Done', form).click()
    const customer = await page.context().newPage()
    await customer.goto(url)
    expect(await customer.getByRole('link', { name: 'Back' }).getAttribute('href')).toBe(
      'https://shop.example.com/account',
    )
    await customer.getByRole('button', { name: 'Remove' }).first().click()
    await customer.getByRole('alertdialog').getByRole('button', { name: 'Remove' }).click()
    await customer.getByText('was removed.').waitFor()
    await page.reload()
    const freed = table('History').getByRole('row').filter({ hasText: 'activation freed' })
    await freed.getByRole('cell', { name: 'the customer', exact: true }).waitFor()
    await button('End customer sessions').click()
    await page.getByRole('alertdialog').getByText('stop working within two seconds').waitFor()
    await window.confirm('End customer sessions')
    await eventually(async () => {
      await customer.reload()
      await customer.getByRole('alert').waitFor({ timeout: 1_000 })
    })
    await customer.close()
    expect((await stack.api.get(`/v1/licences/${licence.id}`)).body).toMatchObject({
      status: 'active',
      activations_total: 1,
    })
  })

  test('a checkout link is created for the customer, shown with its amount and copied, and a charge links to the processor', async () => {
    await connectProcessor(world())
    const { stack, open, vendor } = world()
    const one = await vendor()
    const pro = await one.plan('Pro')
    await one.price(pro.id)
    const { id } = await one.issue(pro.id, 'customer-1')
    await using window = await open({ at: one.at(`/licences/${id}`) })
    const { page, button, dialog, field, table } = window
    await button('Checkout link').click()
    const checkout = dialog('Checkout link')
    await eventually(async () => expect(await field('Plan', checkout).inputValue()).toBe(pro.id))
    await field('Return address', checkout).fill('https://shop.example.com/thanks')
    await button('Create link', checkout).click()
    await checkout.getByText('pays €49.00').waitFor()
    await expectAccessible(page, 'licence-checkout-link')
    await button('Copy link', checkout).click()
    const url = await page.evaluate<string>('navigator.clipboard.readText()')
    const session = new URL(url).pathname.split('/').at(-1)
    await button('Done', checkout).click()
    await atProcessor(world(), 'pay', { session })
    const charge = await eventually(async () => {
      const { body } = await stack.api.get<{ data: { charge_ref: string; licence_id: string }[] }>(
        `${one.app}/payments`,
      )
      expect(body.data).toMatchObject([{ licence_id: id, charge_ref: expect.stringMatching(/^ch_/) }])
      return body.data[0]!.charge_ref
    })
    await page.reload()
    const link = table('Payments').getByRole('link', { name: charge })
    const { body: processor } = await stack.api.get<{ connected_account: string }>('/v1/processor')
    const dashboard = `https://dashboard.stripe.com/${processor.connected_account}/test`
    await eventually(async () =>
      expect(await link.getAttribute('href')).toBe(`${dashboard}/payments/${charge}`),
    )
    expect(await link.getAttribute('rel')).toContain('noreferrer')
    // In this stack the fee of the service is 1 %.
    await page.goto(`${stack.gatewayUrl}/portal${one.at('')}`)
    await window.region('Revenue').getByText('€49.00 gross').waitFor()
    await window.region('Revenue').getByText('€48.51 net').waitFor()
  })
})
