import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { portalTests } from './world.ts'

portalTests('plans', (world) => {
  test('a plan has a field for each entitlement, marked override or default; saving sends exactly the overrides', async () => {
    const { stack, open, vendor } = world()
    const { app, at, define, plan } = await vendor()
    await define('max_projects', 'limit', '3', 'Projects')
    await define('seats_included', 'limit', '1', 'Seats included')
    await define('export_pdf', 'feature', 'false', 'PDF export')
    const { id } = await plan('Pro', [{ key: 'seats_included', value: '5' }])
    const overrides = async () => {
      const { body } = await stack.api.get<{ entitlements: { value: string }[] }>(`${app}/plans/${id}`)
      return body.entitlements.map(({ value }) => value).sort()
    }
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

    await field('Projects').fill('many')
    await field('PDF export').selectOption('true')
    await button('Save').click()
    await page.getByRole('alert').getByRole('button', { name: 'Try again' }).waitFor()
    expect(await field('Projects').getAttribute('aria-invalid')).toBe('true')
    expect(await overrides()).toEqual(['5'])
    await field('Projects').fill('10')
    await page.getByRole('button', { name: 'Use default for Seats included' }).click()
    expect(await field('Seats included').inputValue()).toBe('1')
    await button('Save').click()
    await page.getByText('Saved', { exact: true }).waitFor()
    expect(await overrides()).toEqual(['10', 'true'])
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
    await using window = await open({ at: at('/plans') })
    const { field, button, dialog } = window
    await button('New plan').click()
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

  test('the confirmation of an archive reads the number of licences when it opens, and is disabled without it', async () => {
    const { open, vendor } = world()
    const { at, plan, issue } = await vendor()
    const { id: planId } = await plan('Pro')
    await issue(planId, 'customer-1')
    await using window = await open({ at: at(`/plans/${planId}`) })
    const { page, button } = window
    const asks = page.getByRole('alertdialog', { name: 'Archive' })
    await page.locator('dl').getByText('Active licences').waitFor()
    for (const customer of ['customer-2', 'customer-3']) await issue(planId, customer)
    await button('Archive').click()
    await asks.getByText('3 active licences').waitFor()
    await button('Cancel', asks).click()
    await asks.waitFor({ state: 'hidden' })

    await issue(planId, 'customer-4')
    await page.route('**/plans/pln_*', (route) => route.abort('connectionreset'))
    await button('Archive').click()
    await asks.getByRole('alert').getByText('cannot be reached').waitFor()
    expect(await button('Archive', asks).getAttribute('aria-disabled')).toBe('true')
    expect(await asks.getByText('active licence').count()).toBe(0)
    await page.unroute('**/plans/pln_*')
    await button('Try again', asks).click()
    await asks.getByText('4 active licences').waitFor()
    await window.confirm('Archive')
    await button('Restore').waitFor()
  })

  test('archiving says how many licences it suspends; after a restore only those are reactivated, with progress', async () => {
    const { stack, open, vendor } = world()
    const { at, plan, issue, licences } = await vendor()
    const { id: planId } = await plan('Pro')
    const byHand = await issue(planId, 'suspended by hand')
    await stack.api.post(`/v1/licences/${byHand.id}/suspend`)
    for (let i = 0; i < 40; i += 1) await issue(planId, `customer-${i}`)
    await using window = await open({ at: at(`/plans/${planId}`) })
    const { page, button, confirm } = window
    await button('Archive').click()
    await page.getByRole('alertdialog', { name: 'Archive' }).getByText('40 active licences').waitFor()
    await confirm('Archive')
    await button('Restore').click()
    const statuses = async () => (await licences()).map(({ status }) => status)
    await button('Reactivate suspended licences').waitFor()
    expect(new Set(await statuses())).toEqual(new Set(['suspended']))

    // The work continues while the user is on another page, from which a link leads back. The second half of the calls waits for that.
    const found = Promise.withResolvers<void>()
    const calls: string[] = []
    await page.route('**/v1/licences/*/reactivate', async (route) => {
      calls.push(route.request().url())
      if (calls.length > 20) await found.promise
      return route.continue()
    })
    await button('Reactivate suspended licences').click()
    await page.getByRole('progressbar', { name: 'Reactivating licences of Pro', exact: true }).waitFor()
    await window.goTo('Licences')
    await eventually(() => expect(calls.length).toBeGreaterThan(20))
    await page.getByRole('link', { name: 'Reactivating licences of Pro' }).click()
    await window.heading('Pro').waitFor()
    found.resolve()
    await page.getByText('Done: 40 of 40').waitFor()
    await eventually(async () => {
      expect((await statuses()).filter((status) => status === 'active')).toHaveLength(40)
    })
    expect(new Set(calls).size).toBe(40)
    expect(calls).toHaveLength(40)
    expect((await stack.api.get<{ status: string }>(`/v1/licences/${byHand.id}`)).body.status).toBe(
      'suspended',
    )
    expect(await button('Reactivate suspended licences').count()).toBe(0)
  })
})
