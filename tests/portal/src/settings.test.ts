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
