import { CsvReader } from '@licensing/csv/csv-reader'
import { eventually } from '@licensing/test-support/poll'
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { expectAccessible } from './looks.ts'
import { portalTests, type Vendor, type World } from './world.ts'

/** Starts a trial as a product does. */
async function givenTrial({ stack }: World, { app, appId }: Vendor) {
  const plan = { name: 'Trial', code: 'trial', trial_days: 14 }
  expect((await stack.api.post(`${app}/plans`, { body: plan })).status).toBe(201)
  const product = { fingerprint: randomUUID(), host: 'trial.example.com', product_version: '1.0.0' }
  const started = await stack.api.post<{ licence_id: string }>(`/v1/apps/${appId}/trials`, {
    key: null,
    body: { plan_code: 'trial', ...product },
  })
  expect(started.status, JSON.stringify(started.body)).toBe(201)
  return { licenceId: started.body.licence_id }
}

portalTests('list of licences', (world) => {
  test('trials are marked and can be filtered, and the page of a trial says how it becomes a customer’s licence', async () => {
    const { open, vendor } = world()
    const one = await vendor()
    await one.issue((await one.plan('Pro')).id, 'customer-1')
    const { licenceId } = await givenTrial(world(), one)
    await using window = await open({ at: one.at('/licences') })
    const { page, field, table, button, dialog } = window
    const rows = table('Licences').getByRole('row')
    await eventually(async () => expect(await rows.count()).toBe(3))
    const trial = rows.filter({ hasText: `trial_${licenceId}` })
    await trial.getByText('trial', { exact: true }).waitFor()
    expect(await rows.filter({ hasText: 'customer-1' }).getByText('trial', { exact: true }).count()).toBe(0)
    await field('Trial').selectOption('false')
    await trial.waitFor({ state: 'detached' })
    await field('Trial').selectOption('true')
    await eventually(async () => expect(await rows.count()).toBe(2))
    expect(new URL(page.url()).searchParams.get('trial')).toBe('true')
    await page.reload()
    await trial.getByRole('link').click()
    await page.getByText(/^Active trial since .*, when a product started it as a trial/).waitFor()
    await expectAccessible(page, 'licence-trial')
    // A trial has no customer yet, so it cannot be sold.
    expect(await button('Change plan').count()).toBe(0)
    expect(await button('Checkout link').count()).toBe(0)
    await button('Edit').click()
    await field('Customer reference', dialog('Edit licence')).fill('customer-2')
    await button('Save', dialog('Edit licence')).click()
    await page.getByText(/^Active since /).waitFor()
    await button('Change plan').waitFor()
  })

  test('the list is filtered by up to three metadata pairs, which are all in the address', async () => {
    const { open, vendor } = world()
    const one = await vendor()
    const { id: planId } = await one.plan('Pro')
    await one.issue(planId, 'customer-1', { metadata: { tier: '1', region: 'eu=1' } })
    await one.issue(planId, 'customer-2', { metadata: { tier: '2', region: 'eu=1' } })
    await one.issue(planId, 'customer-3', { metadata: { tier: '2' } })
    await using window = await open({ at: one.at('/licences') })
    const { page, field, table } = window
    const shown = async (...customers: string[]) =>
      eventually(async () => {
        const found = await table('Licences').getByRole('link').allTextContents()
        expect(found.sort()).toEqual(customers)
      })
    await shown('customer-1', 'customer-2', 'customer-3')
    await field('Metadata').fill('tier')
    await field('Metadata').press('Enter')
    await page.getByText('Write it as name=value.').waitFor()
    await field('Metadata').fill('tier=2')
    await field('Metadata').press('Enter')
    await shown('customer-2', 'customer-3')
    await field('Metadata').fill('region=eu=1')
    await field('Metadata').press('Enter')
    await shown('customer-2')
    const { searchParams } = new URL(page.url())
    expect([searchParams.get('metadata[tier]'), searchParams.get('metadata[region]')]).toEqual(['2', 'eu=1'])
    await page.reload()
    await shown('customer-2')
    await expectAccessible(page, 'licences-metadata')
    await field('Metadata').fill('none=such')
    await field('Metadata').press('Enter')
    await page.getByText('No licence matches these filters.').waitFor()
    // With three pairs, the field to add another is hidden.
    expect(await field('Metadata').count()).toBe(0)
    for (const pair of [/none=such/, /tier=2/]) await page.getByRole('button', { name: pair }).click()
    await shown('customer-1', 'customer-2')
  })

  test('all pages of the filtered list are saved as CSV, and no value can run as a formula', async () => {
    const { open, vendor } = world()
    const one = await vendor()
    const { id: planId } = await one.plan('Pro, with "quotes"')
    const fields = { metadata: { set: 'a' }, expires_on: '2031-01-01T10:00:00.000Z' }
    const customers = Array.from({ length: 50 }, (_, n) => `customer-${n}`)
    await Promise.all(customers.map((customer) => one.issue(planId, customer, fields)))
    await one.issue(planId, '=HYPERLINK("https://example.com")', fields)
    const revoked = await one.issue(planId, 'customer-revoked', fields)
    await world().stack.api.post(`/v1/licences/${revoked.id}/revoke`)
    await one.issue(planId, 'customer-other')
    await using window = await open({
      at: one.at('/licences?status=active&metadata[set]=a'),
    })
    const { page, button } = window
    await button('Next page').waitFor()
    const [download] = await Promise.all([page.waitForEvent('download'), button('Export CSV').click()])
    expect(download.suggestedFilename()).toMatch(/^licences-\d{4}-\d\d-\d\d\.csv$/)
    const reader = new CsvReader()
    const text = await readFile(await download.path(), 'utf8')
    const [head, ...rows] = [...reader.push(text), ...reader.end()].map((record) => record.fields)
    const column = (name: string) => rows.map((row) => row[head!.indexOf(name)])
    expect(rows).toHaveLength(51)
    expect(column('external_ref')[0]).toBe(`'=HYPERLINK("https://example.com")`)
    expect(new Set(column('external_ref').slice(1))).toEqual(new Set(customers))
    for (const [name, value] of Object.entries({
      plan: 'Pro, with "quotes"',
      status: 'active',
      expires_on: '2031-01-01T10:00:00.000Z',
      metadata: '{"set":"a"}',
    }))
      expect([...new Set(column(name))]).toEqual([value])
    await page.getByText('Done: 51').waitFor()
    await expectAccessible(page, 'licences-exported')
    expect(window.complaints).toEqual([])
  })

  test('an export that fails saves no file, and can be started again', async () => {
    const { open, vendor } = world()
    const one = await vendor()
    await one.issue((await one.plan('Pro')).id, 'customer-1')
    await using window = await open({ at: one.at('/licences') })
    const { page, button } = window
    await page.route('**/licences?limit=200*', (route) =>
      route.fulfill({
        status: 500,
        contentType: 'application/problem+json',
        body: JSON.stringify({ code: 'internal', status: 500, detail: 'it cannot be read now' }),
      }),
    )
    let downloads = 0
    page.on('download', () => (downloads += 1))
    await button('Export CSV').click()
    const alert = page.getByRole('main').getByRole('alert')
    await alert.getByText('It cannot be read now').waitFor()
    expect(downloads).toBe(0)
    await page.unroute('**/licences?limit=200*')
    await button('Try again', alert).click()
    await page.getByText('Done: 1').waitFor()
    await eventually(() => expect(downloads).toBe(1))
  })
})
