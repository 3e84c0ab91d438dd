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
    await button('Create', form).click()
    await form.getByText('This field is required.').waitFor()
    await field('Name', form).fill(name)
    await form.getByRole('checkbox', { name: 'issue' }).check()
    await button('Create', form).click()
    const shown = dialog('Your new key')
    await button('Copy key', shown).click()
    const key = await page.evaluate<string>('navigator.clipboard.readText()')
    expect(key).toMatch(/^lsk_/)
    expect(await shown.getByText(key).count()).toBe(1)
    const own = () => stack.api.get('/v1/api-keys/self', { key })
    expect(await own()).toMatchObject({
      status: 200,
      body: { name, scopes: ['read', 'issue'], app_id: null },
    })
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
    const row = window
      .table('API keys')
      .getByRole('row')
      .filter({ hasText: `…${own.key.slice(-4)}` })
    await window.button('Revoke', row).click()
    await window.page.getByRole('alertdialog').getByText('You are signed in with this key').waitFor()
    await window.button('Revoke', window.page.getByRole('alertdialog')).click()
    await window.field('API key').waitFor()
  })

  test('a key can be bound to one application, and does not see settings of the account', async () => {
    const { stack, open, vendor } = world()
    const { appId, name } = await vendor()
    await using window = await open({ at: '/settings?open=new-key' })
    const form = window.dialog('New key')
    await window.field('Name', form).fill('bound')
    await form.getByRole('checkbox', { name: 'admin' }).check()
    await window.field('Access to', form).selectOption(name)
    await window.button('Create', form).click()
    const shown = window.dialog('Your new key')
    const key = (await shown.locator('code').textContent())!
    expect(await stack.api.get('/v1/api-keys/self', { key })).toMatchObject({ body: { app_id: appId } })

    await using bound = await open({ key, at: '/settings' })
    await bound.table('Applications').getByRole('row', { name }).waitFor()
    expect(await bound.table('Applications').getByRole('row').count()).toBe(2)
    for (const region of ['API keys', 'Alert e-mail', 'Processor'])
      expect(await bound.region(region).count()).toBe(0)
    expect(await bound.button('New application').count()).toBe(0)
    expect(bound.complaints).toEqual([])
  })

  test('an application is created, and can be selected at once', async () => {
    const { stack, open } = world()
    const name = `Studio ${randomUUID()}`
    await using window = await open({ at: '/settings' })
    const { page, button, field, dialog } = window
    await button('New application').click()
    await field('Name', dialog('New application')).fill(name)
    await button('Create', dialog('New application')).click()
    const row = window.table('Applications').getByRole('row', { name })
    await row.waitFor()
    const { body } = await stack.api.get<{ data: { id: string; name: string }[] }>('/v1/apps?limit=1')
    expect(body.data).toMatchObject([{ name }])
    await row.getByText(body.data[0]!.id).waitFor()
    await page.getByRole('combobox', { name: 'Application', exact: true }).selectOption(name)
    await eventually(() => expect(new URL(page.url()).searchParams.get('app')).toBe(body.data[0]!.id))
    await window.goTo('Plans')
    await page.getByText('There are no plans yet.').waitFor()
    expect(new URL(page.url()).searchParams.get('app')).toBe(body.data[0]!.id)
  })

  test('the alert e-mail is changed and removed, and an invalid address is refused at its field', async () => {
    const { stack, open } = world()
    const address = async () =>
      (await stack.api.get<{ alert_email: string | null }>('/v1/account')).body.alert_email
    await using window = await open({ at: '/settings' })
    const region = window.region('Alert e-mail')
    const input = region.getByRole('textbox', { name: 'Alert e-mail' })
    await input.fill('nobody')
    await window.button('Save', region).click()
    await region.getByRole('alert').waitFor()
    expect(await input.getAttribute('aria-invalid')).toBe('true')
    expect(await input.inputValue()).toBe('nobody')
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

  test('without the scope admin the page names the scope', async () => {
    const { open, key } = world()
    const { key: reader } = await key(['read', 'issue', 'revoke'])
    await using window = await open({ key: reader, at: '/settings' })
    await window.page.getByText('This page needs a key with the scope admin').waitFor()
  })
})
