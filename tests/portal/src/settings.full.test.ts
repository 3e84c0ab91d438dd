import { eventually } from '@licensing/test-support/poll'
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { portalTests } from './world.ts'

portalTests('settings', (world) => {
  test('a new key is shown once, has the rights of its scopes, and is revoked after a confirmation', async () => {
    const { stack, open } = world()
    const name = `shop ${randomUUID()}`
    await using window = await open({ at: '/settings' })
    const { page, button, field, dialog } = window
    await button('New key').click()
    const form = dialog('New key')
    await field('Name', form).fill(name)
    await form.getByRole('checkbox', { name: 'issue' }).check()
    await button('Create', form).click()
    const shown = dialog('Your new key')
    await button('Copy key', shown).click()
    const key = await page.evaluate<string>('navigator.clipboard.readText()')
    expect(await shown.getByText(key).count()).toBe(1)
    const own = () => stack.api.get('/v1/api-keys/self', { key })
    expect((await own()).body).toMatchObject({ name, scopes: ['read', 'issue'], app_id: null })
    await button('Done', shown).click()
    const row = window.table('API keys').getByRole('row', { name })
    await row.getByText('read, issue').waitFor()
    await page.reload()
    await row.waitFor()
    expect(await page.locator('body').textContent()).not.toContain(key)

    await button('Revoke', row).click()
    const asked = page.getByRole('alertdialog', { name: 'Revoke' })
    await asked.getByText(name).waitFor()
    await button('Cancel', asked).click()
    expect((await own()).status).toBe(200)
    await button('Revoke', row).click()
    await window.confirm('Revoke')
    await row.getByText('revoked').waitFor()
    await eventually(async () => expect((await own()).status).toBe(401))
    expect(await button('Revoke', row).count()).toBe(0)
  })

  test('after revoking the key of the session the sign-in form is shown', async () => {
    const { open, key } = world()
    const own = await key(['admin'])
    await using window = await open({ key: own.key, at: '/settings' })
    const { page, button } = window
    const row = window.table('API keys').getByRole('row', { name: `…${own.key.slice(-4)}` })
    await button('Revoke', row).click()
    const asked = page.getByRole('alertdialog')
    await asked.getByText('You are signed in with this key').waitFor()
    await button('Revoke', asked).click()
    await window.field('API key').waitFor()
  })

  test('an application is created, selected at once, changed, and given a key of its own', async () => {
    const { stack, open } = world()
    const name = `Studio ${randomUUID()}`
    await using window = await open({ at: '/settings' })
    const { page, button, field, dialog, table } = window
    await button('New application').click()
    await field('Name', dialog('New application')).fill(name)
    await button('Create', dialog('New application')).click()
    const row = table('Applications').getByRole('row', { name })
    await row.getByText('14 days').waitFor()
    const { body } = await stack.api.get<{ data: { id: string; name: string }[] }>('/v1/apps?limit=1')
    expect(body.data).toMatchObject([{ name }])
    const { id } = body.data[0]!
    await row.getByText(id).waitFor()
    const selected = page.getByRole('combobox', { name: 'Application', exact: true })
    await selected.selectOption(name)
    await window.goTo('Plans')
    await page.getByText('There are no plans yet.').waitFor()
    expect(new URL(page.url()).searchParams.get('app')).toBe(id)

    await window.goTo('Settings')
    await button(`Edit ${name}`).click()
    await field('Notice before expiry, in days', dialog('Edit application')).fill('0')
    await field('Name', dialog('Edit application')).fill(`${name} 2`)
    await button('Save', dialog('Edit application')).click()
    await row.getByText('off').waitFor()
    expect((await stack.api.get(`/v1/apps/${id}`)).body).toMatchObject({
      name: `${name} 2`,
      expiring_notice_days: 0,
    })
    await eventually(async () =>
      expect(await selected.locator('option:checked').textContent()).toBe(`${name} 2`),
    )

    await button('New key').click()
    await field('Name', dialog('New key')).fill('bound')
    await dialog('New key').getByRole('checkbox', { name: 'admin' }).check()
    await field('Access to', dialog('New key')).selectOption(`${name} 2`)
    await button('Create', dialog('New key')).click()
    const key = (await dialog('Your new key').locator('code').textContent())!
    expect(await stack.api.get('/v1/api-keys/self', { key })).toMatchObject({ body: { app_id: id } })
  })

  test('the customer page of the selected application is set, and only what was changed is sent', async () => {
    const { stack, open, vendor } = world()
    const one = await vendor()
    const set = (fields: object) => stack.api.patch(one.app, { body: { customer_page: fields } })
    const shown = async () => (await stack.api.get<{ customer_page: object }>(one.app)).body.customer_page
    await using window = await open({ at: one.at('/settings') })
    const { page, button, field } = window
    const region = window.region('Customer page')
    await region.getByText(one.name).waitFor()
    expect(await field('Removals per day', region).inputValue()).toBe('3')
    expect(await region.getByText(`/customer/${one.appId}`).count()).toBe(0)
    await field('Support address', region).fill('help@example.com')
    await field('Accent colour', region).fill('#0b6e4f')
    await field('Offline days', region).fill('30')
    await field('Sign-in with the licence key', region).check()
    await button('Save', region).click()
    await region.getByText('must be an https URL, or mailto:').waitFor()
    expect(await shown()).toMatchObject({ accent_color: null, key_sign_in: false })
    // Somebody else changes another setting meanwhile.
    expect((await set({ frees_per_day: 7 })).status).toBe(200)
    await field('Support address', region).fill('mailto:help@example.com')
    await button('Save', region).click()
    await region.getByText('Saved').waitFor()
    expect(await shown()).toEqual({
      support_url: 'mailto:help@example.com',
      accent_color: '#0b6e4f',
      frees_per_day: 7,
      offline_days: 30,
      key_sign_in: true,
    })
    const address = region.getByText(`/customer/${one.appId}`)
    await page.goto((await address.textContent())!)
    await window.heading(one.name).waitFor()
    await field('Licence key').waitFor()
    await page.goto(`${stack.gatewayUrl}/portal${one.at('/settings')}`)
    await field('Accent colour', region).fill('')
    await field('Sign-in with the licence key', region).uncheck()
    await button('Save', region).click()
    await region.getByText('Saved').waitFor()
    expect(await shown()).toMatchObject({ accent_color: null, key_sign_in: false, offline_days: 30 })
    await address.waitFor({ state: 'hidden' })
  })

  test('the audit log shows who changed what, and is filtered by both', async () => {
    const { stack, open, vendor } = world()
    const one = await vendor()
    const key = `audited_${randomUUID().slice(0, 8)}`
    const defs = `${one.app}/entitlement-defs`
    const made = await stack.api.post<{ id: string }>(defs, { body: { key, kind: 'feature' } })
    const { id } = made.body
    expect((await stack.api.patch(`${defs}/${id}`, { body: { display_name: 'Audited' } })).status).toBe(200)
    await eventually(async () => {
      const { body } = await stack.api.get<{ data: { resource_id: string }[] }>('/v1/audit-log')
      expect(body.data.filter(({ resource_id: of }) => of === id)).toHaveLength(2)
    })
    await using window = await open({ at: one.at('/settings') })
    const { page, field } = window
    const region = window.region('Audit log')
    const rows = window.table('Audit log').getByRole('row').filter({ hasText: id })
    await rows.filter({ hasText: `display name: ${key} → Audited` }).waitFor()
    expect(await rows.count()).toBe(2)
    await field('What', region).selectOption('createEntitlementDefinition')
    await eventually(async () => expect(await rows.count()).toBe(1))
    await rows.filter({ hasText: 'key: none' }).waitFor()
    await field('Who', region).selectOption('operator')
    await region.getByText('No change matches these filters.').waitFor()
    const { searchParams } = new URL(page.url())
    expect([searchParams.get('who'), searchParams.get('what')]).toEqual([
      'operator',
      'createEntitlementDefinition',
    ])
  })

  test('the alert e-mail is changed and removed', async () => {
    const { stack, open } = world()
    const address = async () =>
      (await stack.api.get<{ alert_email: string | null }>('/v1/account')).body.alert_email
    await using window = await open({ at: '/settings' })
    const region = window.region('Alert e-mail')
    const input = region.getByRole('textbox', { name: 'Alert e-mail' })
    await input.fill('ops@example.com')
    await window.button('Save', region).click()
    await region.getByText('Saved').waitFor()
    expect(await address()).toBe('ops@example.com')
    await region.getByText('ops@example.com is not confirmed yet.').waitFor()
    await input.fill('')
    await window.button('Save', region).click()
    await eventually(async () => expect(await address()).toBeNull())
    await region.getByText('is not confirmed yet.').waitFor({ state: 'hidden' })
  })
})
