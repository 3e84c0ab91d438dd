import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { portalTests } from './world.ts'

portalTests('licences', (world) => {
  test('search, filters and page of the licences are in the address, except for a searched licence key', async () => {
    const { stack, open, vendor } = world()
    const { at, plan, issue } = await vendor()
    const [pro, team] = [await plan('Pro'), await plan('Team')]
    const names = Array.from({ length: 55 }, (_, i) => `customer-${String(i).padStart(2, '0')}`)
    const issued = []
    for (const name of names) issued.push(await issue(pro.id, name))
    const special = await issue(team.id, '<b>Ada & Co</b>')
    await stack.api.post(`/v1/licences/${special.id}/suspend`)
    await using window = await open({ at: at('/licences') })
    const { page, table, field, button } = window
    const rows = table('Licences').getByRole('row')
    const showing = (count: number, text: string) =>
      eventually(async () => {
        expect(await rows.count()).toBe(count + 1)
        expect(await table('Licences').textContent()).toContain(text)
      })

    await showing(50, '<b>Ada & Co</b>')
    await button('Next page').click()
    await showing(6, 'customer-00')
    const second = page.url()
    await button('Previous page').click()
    await showing(50, 'customer-54')
    await page.goto(second)
    await showing(6, 'customer-00')

    await field('Status').selectOption('suspended')
    await showing(1, 'Ada')
    await page.reload()
    await showing(1, 'Ada')
    await field('Status').selectOption('')
    await field('Plan').selectOption('Team')
    await showing(1, 'Ada')
    await field('Plan').selectOption('')

    await field('Search licences').fill('customer-1')
    await showing(10, 'customer-19')
    expect(new URL(page.url()).searchParams.get('q')).toBe('customer-1')
    await page.reload()
    await showing(10, 'customer-19')
    expect(await field('Search licences').inputValue()).toBe('customer-1')
    const { key } = issued[7]!
    await field('Search licences').fill(key.toLowerCase())
    await showing(1, 'customer-07')
    expect(page.url().toUpperCase()).not.toContain(key)
    await field('Search licences').fill('nobody at all')
    await eventually(async () => expect(await rows.count()).toBe(1))
    await page.getByText('No licence found.').waitFor()
    await field('Search licences').fill('')
    await showing(50, 'customer-54')
    expect(window.complaints).toEqual([])
  })

  test('a licence is issued with all restrictions, and shown with its key', async () => {
    const { open, vendor } = world()
    const { at, plan, licences } = await vendor()
    await plan('Team')
    const pro = await plan('Pro')
    await using window = await open({ at: at('/licences') })
    const { field, button, dialog } = window
    await window.page.getByText('There are no licences yet.').waitFor()
    await button('Issue licence').click()
    const issue = dialog('Issue licence')
    await button('Issue', issue).click()
    await issue.getByText('This field is required.').first().waitFor()
    await field('Customer reference', issue).fill('Zoë & Sons')
    await field('Plan', issue).selectOption('Pro')
    await field('Maximum activations', issue).fill('none')
    await field('Seats', issue).fill('25')
    await field('Domains', issue).fill('example.com\n*.example.org')
    await field('Expires on', issue).fill('2031-03-31')
    await button('Issue', issue).click()
    const alert = issue.getByRole('alert')
    await alert.getByRole('button', { name: 'Try again' }).waitFor()
    expect(await field('Maximum activations', issue).getAttribute('aria-invalid')).toBe('true')
    expect(await field('Customer reference', issue).inputValue()).toBe('Zoë & Sons')
    await field('Maximum activations', issue).fill('3')
    await button('Issue', issue).click()
    await button('Copy key', issue).waitFor()
    const [licence] = await licences()
    expect(licence).toMatchObject({
      external_ref: 'Zoë & Sons',
      plan_id: pro.id,
      restrictions: { domains: ['example.com', '*.example.org'], max_activations: 3, max_seats: 25 },
      expires_on: '2031-03-31T23:59:59.999Z',
    })
    expect(await issue.textContent()).toContain(licence!.key)
    await issue.getByRole('link', { name: 'Show the licence' }).click()
    await window.heading('Zoë & Sons').waitFor()
  })

  test('lengths are counted in characters, and typed text is not cut off', async () => {
    const { open, vendor } = world()
    const { at, plan, licences } = await vendor()
    await plan('Pro')
    await using window = await open({ at: at('/licences') })
    const { page, field, button, dialog } = window
    await field('Search licences').fill('🦊')
    await page.getByText('Enter at least two characters.').waitFor()
    await field('Search licences').fill('')
    await button('Issue licence').click()
    const issue = dialog('Issue licence')
    const longest = '🦊'.repeat(255)
    await field('Customer reference', issue).fill(`${longest}x`)
    await field('Plan', issue).selectOption('Pro')
    await button('Issue', issue).click()
    await issue.getByText('must have 1 to 255 characters').first().waitFor()
    expect(await field('Customer reference', issue).inputValue()).toBe(`${longest}x`)
    await field('Customer reference', issue).fill(longest)
    await button('Issue', issue).click()
    await button('Copy key', issue).waitFor()
    expect(await licences()).toMatchObject([{ external_ref: longest }])
  })

  test('if a request fails, the form keeps its input, and trying again issues one licence', async () => {
    const { open, vendor } = world()
    const { at, plan, licences } = await vendor()
    await plan('Pro')
    await using window = await open({ at: at('/licences?open=issue') })
    const { page, field, button, dialog } = window
    const issue = dialog('Issue licence')
    await field('Customer reference', issue).fill('customer-1')
    await field('Plan', issue).selectOption('Pro')
    // The service executes the call, and its answer is lost.
    await page.route('**/v1/apps/*/licences', async (route) => {
      if (route.request().method() !== 'POST') return route.fallback()
      await route.fetch()
      return route.abort('connectionreset')
    })
    await button('Issue', issue).click()
    const alert = issue.getByRole('alert')
    await alert.getByText('The service cannot be reached.').waitFor()
    expect(await licences()).toHaveLength(1)
    await page.unroute('**/v1/apps/*/licences')
    await button('Try again', alert).click()
    await button('Copy key', issue).waitFor()
    expect(await licences()).toHaveLength(1)

    // A list that fails has the button "Try again" too.
    await page.route('**/v1/apps/*/licences?*', (route) => route.abort('connectionreset'))
    await page.goto(`${new URL(page.url()).origin}/portal${at('/licences?status=active')}`)
    await page.getByRole('alert').getByText('The service cannot be reached.').waitFor()
    await page.unroute('**/v1/apps/*/licences?*')
    await button('Try again').click()
    await window.table('Licences').getByRole('link', { name: 'customer-1' }).waitFor()
  })

  test('a licence is suspended, reactivated, revoked and retired, each after a confirmation and only if allowed', async () => {
    const { stack, open, vendor, receiver } = world()
    const { at, plan, issue, licence, endpoint } = await vendor()
    await endpoint(receiver.url('/lifecycle'))
    const { id: planId } = await plan()
    const { id } = await issue(planId, 'customer-1')
    await using window = await open({ at: at(`/licences/${id}`) })
    const { page, button, confirm, table } = window
    await window.heading('customer-1').waitFor()
    expect(await page.title()).toBe('customer-1 · Licensing')
    const verbs = async (...names: string[]) =>
      eventually(async () => {
        const shown = await Promise.all(
          ['Suspend', 'Reactivate', 'Revoke', 'Retire'].map(async (name) =>
            (await button(name).count()) === 1 ? [name] : [],
          ),
        )
        expect(shown.flat()).toEqual(names)
      })
    const becomes = (status: string) =>
      eventually(async () => expect((await licence(id)).status).toBe(status))

    await verbs('Suspend', 'Revoke', 'Retire')
    await button('Suspend').click()
    await page.getByRole('alertdialog', { name: 'Suspend' }).getByRole('button', { name: 'Cancel' }).click()
    expect((await licence(id)).status).toBe('active')
    await button('Suspend').click()
    await confirm('Suspend')
    await becomes('suspended')
    await verbs('Reactivate', 'Revoke', 'Retire')
    await button('Reactivate').click()
    await confirm('Reactivate')
    await becomes('active')
    // Somebody else suspends it first. The error names the present status, and stays until the dialog is closed.
    await button('Suspend').click()
    await stack.api.post(`/v1/licences/${id}/suspend`)
    const asks = page.getByRole('alertdialog', { name: 'Suspend' })
    await button('Suspend', asks).click()
    await asks.getByRole('alert').getByText('only an active licence can be suspended').waitFor()
    await button('Cancel', asks).click()
    await verbs('Reactivate', 'Revoke', 'Retire')
    await button('Revoke').click()
    await confirm('Revoke')
    await becomes('revoked')
    await verbs('Retire')
    expect(await button('Edit').count()).toBe(0)
    await button('Retire').click()
    await confirm('Retire')
    await becomes('retired')
    await verbs()
    const events = ['suspended', 'reactivated', 'suspended', 'revoked', 'retired']
    await eventually(async () => {
      const history = await table('History').getByRole('row').allTextContents()
      for (const [i, event] of events.toReversed().entries()) expect(history[i + 1]).toContain(event)
      for (const event of events) {
        const rows = table('Deliveries')
          .getByRole('row')
          .filter({ hasText: `licence.${event}` })
        expect(await rows.filter({ hasText: 'delivered' }).count()).toBeGreaterThan(0)
      }
    })
    expect(receiver.requests.filter(({ path }) => path === '/lifecycle')).toHaveLength(5)
  })

  test('an action shows at once that it is running, is executed once, and shows its effect after the service has confirmed it', async () => {
    const { open, vendor } = world()
    const { at, plan, issue, licence } = await vendor()
    const { id } = await issue((await plan()).id, 'customer-1')
    await using window = await open({ at: at(`/licences/${id}`) })
    const { page, button } = window
    const released = Promise.withResolvers<void>()
    let calls = 0
    await page.route('**/suspend', async (route) => {
      calls += 1
      await released.promise
      await route.continue()
    })
    await button('Suspend').click()
    const asked = page.getByRole('alertdialog', { name: 'Suspend' })
    const confirming = asked.getByRole('button', { name: 'Suspend' })
    await confirming.click()
    await asked.locator('[aria-busy=true]').waitFor()
    await confirming.click({ force: true })
    expect(await button('Reactivate').count()).toBe(0)
    released.resolve()
    await button('Reactivate').waitFor()
    expect([calls, (await licence(id)).status]).toEqual([1, 'suspended'])
  })

  test('a licence is edited, its differences from the plan are shown, and an activation is freed', async () => {
    const { stack, open, vendor } = world()
    const { app, at, define, plan, issue, licence, activate } = await vendor()
    await define('max_projects', 'limit', '3')
    await define('export_pdf', 'feature', 'true')
    const { id: planId } = await plan('Pro', [{ key: 'max_projects', value: '10' }])
    const made = await issue(planId, 'customer-1', {
      restrictions: { max_seats: 5 },
      expires_on: '2031-01-01T10:00:00Z',
    })
    await activate(made, 'one.example.com')
    await activate(made, 'two.example.com')
    await stack.api.patch(`${app}/plans/${planId}`, {
      body: { entitlements: [{ key: 'max_projects', value: '20' }] },
    })
    await using window = await open({ at: at(`/licences/${made.id}`) })
    const { page, field, button, dialog, confirm, table } = window
    const drifted = window.region('Entitlements').getByRole('row').filter({ hasText: 'max_projects' })
    await eventually(async () => expect(await drifted.textContent()).toMatch(/10.*20/))

    await button('Edit').click()
    const edit = dialog('Edit licence')
    expect(await field('Seats', edit).inputValue()).toBe('5')
    await field('Customer reference', edit).fill('customer-2')
    await field('Seats', edit).fill('')
    await field('Maximum activations', edit).fill('2')
    await button('Save', edit).click()
    await edit.waitFor({ state: 'hidden' })
    await window.heading('customer-2').waitFor()
    expect(await licence(made.id)).toMatchObject({
      external_ref: 'customer-2',
      restrictions: { max_activations: 2 },
      // An unchanged date keeps its time of day.
      expires_on: '2031-01-01T10:00:00.000Z',
    })
    await button('Edit').click()
    await field('Expires on', edit).fill('')
    await button('Save', edit).click()
    await edit.waitFor({ state: 'hidden' })
    expect((await licence(made.id)).expires_on).toBeNull()

    const place = table('Activations').getByRole('row').filter({ hasText: 'one.example.com' })
    await button('Free', place).click()
    await confirm('Free')
    await place.waitFor({ state: 'detached' })
    const left = await stack.api.get<{ data: { host: string }[] }>(`/v1/licences/${made.id}/activations`)
    expect(left.body.data).toMatchObject([{ host: 'two.example.com' }])
    await table('History').getByText('activation freed').waitFor()
    await table('History').getByText('external ref: customer-1 → customer-2').waitFor()
    await page.getByText('1 of 2 in use').waitFor()
    expect(window.complaints).toEqual([])
  })
})
