import { fullTest } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { expectAccessible } from './looks.ts'
import { portalTests } from './world.ts'

portalTests('licences', (world) => {
  test('search, filters and page of the licences are in the address, except for a searched licence key', async () => {
    const { stack, open, vendor } = world()
    const { at, plan, issue } = await vendor()
    const [pro, team] = [await plan('Pro'), await plan('Team')]
    const names = Array.from({ length: 55 }, (_, n) => `customer-${String(n).padStart(2, '0')}`)
    await issue(pro.id, 'customer-00')
    await Promise.all(names.slice(1, -1).map((name) => issue(pro.id, name)))
    const { key } = await issue(pro.id, 'customer-54')
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
    await field('Search licences').fill(key.toLowerCase())
    await showing(1, 'customer-54')
    expect(page.url().toUpperCase()).not.toContain(key)
    // Lengths are counted in characters.
    await field('Search licences').fill('🦊')
    await page.getByText('Enter at least two characters.').waitFor()
    // A search shows at most 20 licences.
    const notice = page.getByText('only the first 20')
    expect(await notice.count()).toBe(0)
    await field('Search licences').fill('customer')
    await showing(20, 'customer-')
    await notice.waitFor()
    await expectAccessible(page, 'licences-search-cut-off')
    await field('Search licences').fill('nobody at all')
    await page.getByText('No licence found.').waitFor()
    await field('Search licences').fill('')
    await showing(50, 'customer-54')
    expect(window.complaints).toEqual([])
  })

  test('a licence is issued with all fields, and shown with its key and the slots in use, which can be freed', async () => {
    const { stack, open, vendor } = world()
    const one = await vendor()
    await one.plan('Team')
    const { id: planId } = await one.plan('Pro')
    await using window = await open({ at: one.at('/licences') })
    const { page, field, button, dialog, table } = window
    await page.getByText('There are no licences yet.').waitFor()
    await button('Issue licence').click()
    const issue = dialog('Issue licence')
    await button('Issue', issue).click()
    await issue.getByText('This field is required.').first().waitFor()
    await field('Plan', issue).selectOption('Pro')
    for (const [label, value] of Object.entries({
      'Customer reference': 'Zoë & Sons',
      'Maximum activations': '3',
      Seats: '25',
      Domains: 'example.com\n*.example.org',
      'Expires on': '2031-03-31',
      'Updates until': '2030-03-31',
      'Slots at once': '2',
      'Lease in minutes': '30',
    }))
      await field(label, issue).fill(value)
    await button('Add metadata', issue).click()
    await field('Metadata name 1', issue).fill('crm_id')
    await field('Metadata value 1', issue).fill('A-1')
    await button('Issue', issue).click()
    await button('Copy key', issue).waitFor()
    const [licence] = await one.licences()
    expect(licence).toMatchObject({
      external_ref: 'Zoë & Sons',
      plan_id: planId,
      metadata: { crm_id: 'A-1' },
      restrictions: {
        domains: ['example.com', '*.example.org'],
        max_activations: 3,
        max_seats: 25,
        max_concurrent: 2,
        lease_minutes: 30,
      },
      expires_on: '2031-03-31T23:59:59.999Z',
      updates_until: '2030-03-31T23:59:59.999Z',
    })
    expect(await issue.textContent()).toContain(licence!.key)
    await issue.getByRole('link', { name: 'Show the licence' }).click()
    await window.heading('Zoë & Sons').waitFor()
    const facts = page.locator('dl').first()
    await facts.getByText('31 Mar 2030').waitFor()
    await facts.getByText('2, held for 30 minutes').waitFor()

    await one.activate(licence!, 'example.com')
    const { body } = await stack.api.get<{ data: { lease_ends_at: string | null }[] }>(
      `/v1/licences/${licence!.id}/activations`,
    )
    await page.reload()
    await window.region('Activations').getByText('1 of 2 slots in use').waitFor()
    const row = table('Activations').getByRole('row').filter({ hasText: 'example.com' })
    await row.locator(`time[datetime="${body.data[0]!.lease_ends_at}"]`).waitFor()
    await expectAccessible(page, 'licence-floating')
    await button('Free', row).click()
    await window.confirm('Free')
    await row.waitFor({ state: 'detached' })
    await window.region('Activations').getByText('0 of 2 slots in use').waitFor()
    await table('History').getByText('activation freed').waitFor()
  })

  test('if the answer to an issue is lost, trying again issues no second licence; its reference may have 255 characters', async () => {
    const { open, vendor } = world()
    const { at, plan, licences } = await vendor()
    await plan('Pro')
    await using window = await open({ at: at('/licences?open=issue') })
    const { page, field, button, dialog } = window
    const issue = dialog('Issue licence')
    await field('Customer reference', issue).fill('🦊'.repeat(255))
    await field('Plan', issue).selectOption('Pro')
    await window.loseAnswers('POST', '**/v1/apps/*/licences')
    await button('Issue', issue).click()
    const alert = issue.getByRole('alert')
    await alert.getByText('The service cannot be reached.').waitFor()
    expect(await licences()).toHaveLength(1)
    await page.unroute('**/v1/apps/*/licences')
    await button('Try again', alert).click()
    await button('Copy key', issue).waitFor()
    expect(await licences()).toHaveLength(1)
  })

  test('a licence is suspended, reactivated, revoked and retired, each after a confirmation and only if allowed', async () => {
    const { stack, open, vendor, receiver } = world()
    const { at, plan, issue, licence, endpoint } = await vendor()
    await endpoint(receiver.url('/lifecycle'))
    const { id } = await issue((await plan()).id, 'customer-1')
    await using window = await open({ at: at(`/licences/${id}`) })
    const { page, button, confirm, table } = window
    await window.heading('customer-1').waitFor()
    expect(await page.title()).toBe('customer-1 · Licensing')
    const all = ['Suspend', 'Reactivate', 'Revoke', 'Retire']
    const verbs = async (...names: string[]) =>
      eventually(async () => {
        const counts = await Promise.all(all.map((name) => button(name).count()))
        expect(all.filter((_, at) => counts[at] === 1)).toEqual(names)
      })
    const change = async (verb: string, status: string) => {
      await button(verb).click()
      await confirm(verb)
      await eventually(async () => expect((await licence(id)).status).toBe(status))
    }

    await verbs('Suspend', 'Revoke', 'Retire')
    const asks = page.getByRole('alertdialog', { name: 'Suspend' })
    await button('Suspend').click()
    await button('Cancel', asks).click()
    expect((await licence(id)).status).toBe('active')
    await change('Suspend', 'suspended')
    await verbs('Reactivate', 'Revoke', 'Retire')
    await change('Reactivate', 'active')
    // Somebody else suspends it first. The error names the present status, and stays until the dialog is closed.
    await button('Suspend').click()
    await stack.api.post(`/v1/licences/${id}/suspend`)
    await button('Suspend', asks).click()
    await asks.getByRole('alert').getByText('only an active licence can be suspended').waitFor()
    await button('Cancel', asks).click()
    await verbs('Reactivate', 'Revoke', 'Retire')
    await change('Revoke', 'revoked')
    await verbs('Retire')
    expect(await button('Edit').count()).toBe(0)
    await change('Retire', 'retired')
    await verbs()
    const events = ['suspended', 'reactivated', 'suspended', 'revoked', 'retired']
    await eventually(async () => {
      const history = await table('History').getByRole('row').allTextContents()
      for (const [at, event] of events.toReversed().entries()) expect(history[at + 1]).toContain(event)
      const sent = table('Deliveries').getByRole('row').filter({ hasText: 'delivered' })
      expect(await sent.count()).toBe(events.length)
    })
  })

  fullTest(
    'an action shows at once that it is running, is executed once, and shows its effect after the service has confirmed it',
    async () => {
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
    },
  )

  test('an edit sends only changed fields, so that a change by somebody else stays', async () => {
    const { stack, open, vendor } = world()
    const { at, plan, issue, licence } = await vendor()
    const { id } = await issue((await plan()).id, 'customer-1', {
      restrictions: { max_seats: 5, max_activations: 3 },
      expires_on: '2031-01-01T10:00:00Z',
      updates_until: '2030-01-01T10:00:00Z',
    })
    await using window = await open({ at: at(`/licences/${id}?open=edit`) })
    const { field, button, dialog, table } = window
    const edit = dialog('Edit licence')
    expect(await field('Seats', edit).inputValue()).toBe('5')
    await field('Seats', edit).fill('')
    await field('Maximum activations', edit).fill('2')
    await field('Updates until', edit).fill('')
    await stack.api.patch(`/v1/licences/${id}`, { body: { external_ref: 'customer-2' } })
    await button('Save', edit).click()
    await edit.waitFor({ state: 'hidden' })
    await window.heading('customer-2').waitFor()
    expect(await licence(id)).toMatchObject({
      external_ref: 'customer-2',
      restrictions: { max_activations: 2 },
      updates_until: null,
      // An unchanged date keeps its time of day.
      expires_on: '2031-01-01T10:00:00.000Z',
    })
    await window.page.locator('dl').getByText('all releases').waitFor()
    await button('Edit').click()
    await field('Expires on', edit).fill('')
    await field('Customer reference', edit).fill('customer-3')
    await stack.api.patch(`/v1/licences/${id}`, { body: { restrictions: { max_seats: 6 } } })
    await button('Save', edit).click()
    await edit.waitFor({ state: 'hidden' })
    expect(await licence(id)).toMatchObject({
      external_ref: 'customer-3',
      restrictions: { max_seats: 6 },
      expires_on: null,
    })
    await table('History').getByText('external ref: customer-2 → customer-3').waitFor()
    expect(window.complaints).toEqual([])
  })
})
