import { fullTest } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { expectAccessible } from './looks.ts'
import { portalTests } from './world.ts'

portalTests('plans', (world) => {
  test('a plan has a field for each entitlement, marked override or default; saving sends exactly the overrides', async () => {
    const { stack, open, vendor } = world()
    const { app, at, define, plan } = await vendor()
    await define('max_projects', 'limit', '3', 'Projects')
    await define('seats_included', 'limit', '1', 'Seats included')
    await define('export_pdf', 'feature', 'false', 'PDF export')
    const { id } = await plan('Pro', [{ key: 'seats_included', value: '5' }])
    await using window = await open({ at: at('/plans') })
    const { page, field, button } = window
    await window.table('Plans').getByRole('link', { name: 'Pro' }).click()
    await window.heading('Pro').waitFor()
    const mark = async (name: string) => {
      const described = await field(name).getAttribute('aria-describedby')
      return page.locator(`[id="${described!.split(' ')[0]}"]`).textContent()
    }
    expect(await field('Projects').inputValue()).toBe('3')
    expect(await mark('Projects')).toMatch(/^default/)
    expect(await mark('Seats included')).toMatch(/^override/)

    await field('Projects').fill('10')
    await field('PDF export').selectOption('true')
    await button('Use default for Seats included').click()
    expect(await field('Seats included').inputValue()).toBe('1')
    await button('Save').click()
    await page.getByText('Saved', { exact: true }).waitFor()
    const { body } = await stack.api.get<{ entitlements: { value: string }[] }>(`${app}/plans/${id}`)
    expect(body.entitlements.map(({ value }) => value).sort()).toEqual(['10', 'true'])
    expect(await mark('Seats included')).toMatch(/^default/)
  })

  test('an entitlement and its values are deleted after a confirmation', async () => {
    const { stack, open, vendor } = world()
    const { app, at, define, plan } = await vendor()
    await define('export_pdf', 'feature', 'false', 'PDF export')
    const { id } = await plan('Pro', [{ key: 'export_pdf', value: 'true' }])
    await using window = await open({ at: at('/plans') })
    const row = window.table('Entitlements').getByRole('row', { name: 'PDF export' })
    await window.button('Delete', row).click()
    await window.button('Cancel', window.page.getByRole('alertdialog', { name: 'Delete' })).click()
    await row.waitFor()
    await window.button('Delete', row).click()
    await window.confirm('Delete')
    await row.waitFor({ state: 'detached' })
    expect((await stack.api.get(`${app}/plans/${id}`)).body).toMatchObject({ entitlements: [] })
  })

  test('a code that is taken is refused in the dialog, with advice', async () => {
    const { stack, open, vendor } = world()
    const { app, at } = await vendor()
    await stack.api.post(`${app}/plans`, { body: { name: 'Pro', code: 'pro' } })
    await using window = await open({ at: at('/plans?open=new-plan') })
    const { field, button, dialog } = window
    const plan = dialog('New plan')
    await field('Name', plan).fill('Professional')
    await field('Code', plan).fill('pro')
    await button('Create', plan).click()
    await plan.getByRole('alert').getByText('Choose another one').waitFor()
    expect(await field('Name', plan).inputValue()).toBe('Professional')
    await field('Code', plan).fill('professional')
    await button('Create', plan).click()
    await plan.waitFor({ state: 'hidden' })
    await window.table('Plans').getByText('professional', { exact: true }).waitFor()
  })

  test('the name, trials and metadata of a plan are changed, and a price with months of updates is set and deleted', async () => {
    const { stack, open, vendor } = world()
    const one = await vendor()
    const { id } = await one.plan('Pro')
    const plan = async () => (await stack.api.get(`${one.app}/plans/${id}`)).body
    const price = () => stack.api.get(`${one.app}/plans/${id}/price`)
    await using window = await open({ at: one.at(`/plans/${id}`) })
    const { page, button, confirm, dialog, field, region, table } = window
    const save = async (opener: string, name: string, values: Record<string, string>) => {
      await button(opener).click()
      for (const [label, value] of Object.entries(values)) await field(label, dialog(name)).fill(value)
      await button('Save', dialog(name)).click()
      await dialog(name).waitFor({ state: 'hidden' })
    }
    await save('Edit', 'Edit plan', { 'Days of a trial': '14' })
    await page.locator('dl').first().getByText('14 days').waitFor()
    expect(await plan()).toMatchObject({ name: 'Pro', trial_days: 14 })
    await save('Edit', 'Edit plan', { Name: 'Team', 'Days of a trial': '' })
    await window.heading('Team').waitFor()
    const metadata = dialog('Edit metadata')
    await button('Edit metadata').click()
    await button('Add metadata', metadata).click()
    await field('Metadata name 1', metadata).fill('tier')
    await field('Metadata value 1', metadata).fill('2')
    await button('Save', metadata).click()
    await table('Metadata').getByRole('row', { name: 'tier 2' }).waitFor()
    expect(await plan()).toMatchObject({ name: 'Team', trial_days: null, metadata: { tier: '2' } })

    await region('Price').getByText('The plan has no price').waitFor()
    const values = { 'Price at the processor': 'price_1', Amount: '49.50', 'Months of updates': '12' }
    await save('Set price', 'Price', values)
    const set = { price_id: 'price_1', amount: 4950, currency: 'eur', mode: 'payment' }
    expect((await price()).body).toMatchObject({ ...set, period_months: null, updates_months: 12 })
    await region('Price').getByText('€49.50').waitFor()
    await region('Price').getByText('12 months').waitFor()
    await expectAccessible(page, 'plan-price')
    await button('Delete price').click()
    await confirm('Delete price')
    await region('Price').getByText('The plan has no price').waitFor()
    expect((await price()).status).toBe(404)
  })

  fullTest(
    'an archive says how many licences it suspends; after a restore only those are reactivated, with progress',
    async () => {
      const { stack, open, vendor } = world()
      const { at, plan, issue, licence, licences } = await vendor()
      const { id: planId } = await plan('Pro')
      const byHand = await issue(planId, 'suspended by hand')
      await stack.api.post(`/v1/licences/${byHand.id}/suspend`)
      await using window = await open({ at: at(`/plans/${planId}`) })
      const { page, button } = window
      const asks = page.getByRole('alertdialog', { name: 'Archive' })
      // The dialog reads the number when it opens, and without it the button is disabled.
      await page.locator('dl').getByText('Active licences').waitFor()
      await Promise.all(Array.from({ length: 20 }, (_, n) => issue(planId, `customer-${n}`)))
      await page.route('**/plans/pln_*', (route) => route.abort('connectionreset'))
      await button('Archive').click()
      await asks.getByRole('alert').getByText('cannot be reached').waitFor()
      expect(await button('Archive', asks).getAttribute('aria-disabled')).toBe('true')
      expect(await asks.getByText('active licence').count()).toBe(0)
      await page.unroute('**/plans/pln_*')
      await button('Try again', asks).click()
      await asks.getByText('20 active licences').waitFor()
      await window.confirm('Archive')
      await button('Restore').click()
      const active = async () => (await licences()).filter(({ status }) => status === 'active').length
      await button('Reactivate suspended licences').waitFor()
      expect(await active()).toBe(0)

      // The work continues while the user is on another page, from which a link leads back. The second half of the calls waits for that.
      const found = Promise.withResolvers<void>()
      const calls: string[] = []
      await page.route('**/v1/licences/*/reactivate', async (route) => {
        calls.push(route.request().url())
        if (calls.length > 10) await found.promise
        return route.continue()
      })
      await button('Reactivate suspended licences').click()
      await page.getByRole('progressbar', { name: 'Reactivating licences of Pro', exact: true }).waitFor()
      await window.goTo('Licences')
      await eventually(() => expect(calls.length).toBeGreaterThan(10))
      await page.getByRole('link', { name: 'Reactivating licences of Pro' }).click()
      await window.heading('Pro').waitFor()
      found.resolve()
      await page.getByText('Done: 20 of 20').waitFor()
      await eventually(async () => expect(await active()).toBe(20))
      expect([new Set(calls).size, calls.length]).toEqual([20, 20])
      expect((await licence(byHand.id)).status).toBe('suspended')
      expect(await button('Reactivate suspended licences').count()).toBe(0)
    },
  )

  test('the number of active licences of a plan links to their list', async () => {
    const { open, vendor } = world()
    const one = await vendor()
    await one.issue((await one.plan('Pro')).id, 'customer-1')
    await one.issue((await one.plan('Team')).id, 'customer-2')
    await using window = await open({ at: one.at('/plans') })
    const row = window.table('Plans').getByRole('row', { name: /^Pro/ })
    await row.getByRole('link', { name: '1', exact: true }).click()
    await window.heading('Licences').waitFor()
    const found = window.table('Licences').getByRole('link')
    await eventually(async () => expect(await found.allTextContents()).toEqual(['customer-1']))
    expect(new URL(window.page.url()).searchParams.get('status')).toBe('active')
  })
})
