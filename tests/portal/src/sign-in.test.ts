import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { expectEveryLook } from './looks.ts'
import { portalTests } from './world.ts'

portalTests('sign-in', (world) => {
  test('an invalid key is refused in an alert and stays in its field; a valid key shows the overview; signing out ends the session', async () => {
    const { stack, open } = world()
    await using window = await open({ key: null })
    const { page, field, button } = window
    await field('API key').fill('lsk_not_a_key_of_anyone')
    expect(await page.title()).toBe('Sign in · Licensing')
    await button('Sign in').click()
    await page.getByRole('alert').getByRole('button', { name: 'Try again' }).waitFor()
    expect(await field('API key').inputValue()).toBe('lsk_not_a_key_of_anyone')
    await field('API key').fill(stack.apiKey)
    await page.keyboard.press('Enter')
    await window.heading('Overview').waitFor()
    expect(await page.title()).toBe('Overview · Licensing')
    expect(new URL(page.url()).pathname).toMatch(/^\/portal\/?$/)

    // The router stores scroll positions in the session storage.
    const kept = await page.evaluate<unknown>(
      `[{ ...localStorage }, Object.keys(sessionStorage).filter((name) => !name.startsWith('tsr-scroll')), document.cookie]`,
    )
    expect(kept).toEqual([{}, [], ''])
    const [cookie] = await page.context().cookies()
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict' })
    expect(cookie?.value).not.toContain(stack.apiKey)

    await button('Sign out').click()
    await field('API key').waitFor()
    expect(await field('API key').inputValue()).toBe('')
    await page.reload()
    await field('API key').waitFor()
  })

  test('the link that npm start prints asks before it signs in, and its key leaves the address at once', async () => {
    const { stack, open, key } = world()
    await using window = await open({ key: null, at: `#key=${stack.apiKey}` })
    const { page } = window
    const asks = page.getByRole('alertdialog')
    const signIn = page.getByRole('button', { name: 'Sign in', exact: true })
    await asks.getByText('the key Demo (').waitFor()
    expect(page.url()).not.toContain('lsk_')
    expect(await page.evaluate<string>('JSON.stringify(history.state)')).not.toContain('lsk_')
    expect(await page.context().cookies()).toEqual([])
    // The form behind the dialog has no accessible role, so it is found by its attribute.
    expect(await signIn.count()).toBe(1)
    await asks.getByRole('button', { name: 'Cancel' }).click()
    await window.field('API key').waitFor()
    expect(await page.context().cookies()).toEqual([])
    await page.goto(`${stack.gatewayUrl}/portal#key=${stack.apiKey}`)
    await asks.waitFor()
    await signIn.click()
    await window.heading('Overview').waitFor()
    expect(page.url()).not.toContain('lsk_')

    const other = await key(['read'])
    await page.goto(`${stack.gatewayUrl}/portal#key=${other.key}`)
    await asks.getByText('instead of Demo').waitFor()
    await asks.getByRole('button', { name: 'Cancel' }).click()
    await asks.waitFor({ state: 'hidden' })
    expect(page.url()).not.toContain('lsk_')
    const name = async () => (await page.request.get(`${stack.gatewayUrl}/v1/api-keys/self`, asPortal)).json()
    expect(await name()).toMatchObject({ name: 'Demo' })
    await page.goto(`${stack.gatewayUrl}/portal/licences#key=${other.key}`)
    await asks.getByRole('button', { name: 'Sign in' }).click()
    await eventually(async () => expect(await name()).toMatchObject({ name: 'read' }))
    await window.heading('Licences').waitFor()
    // A link with the key that is already signed in changes nothing.
    await page.goto(`${stack.gatewayUrl}/portal/plans#key=${other.key}`)
    await window.heading('Plans').waitFor()
    expect(page.url()).not.toContain('lsk_')
    expect(await asks.count()).toBe(0)
  })

  test('a link with an invalid key shows an error and starts no session', async () => {
    const { open } = world()
    await using window = await open({ key: null, at: '#key=lsk_not_a_key_of_anyone' })
    const { page } = window
    await page.getByRole('alert').getByText('Check the key').waitFor()
    await window.field('API key').waitFor()
    expect(await page.getByRole('alertdialog').count()).toBe(0)
    expect(page.url()).not.toContain('lsk_')
    expect(await page.context().cookies()).toEqual([])
  })

  test('the dialog of a link is accessible in light and dark mode and on a phone', async () => {
    const { stack, open } = world()
    await using window = await open({ key: null, at: `#key=${stack.apiKey}`, bypassCSP: true })
    await window.page.getByRole('alertdialog').waitFor()
    await expectEveryLook(window.page, 'sign-in-link')
  })

  test('if the key is revoked, the sign-in form is shown, and after the sign-in the typed input is restored', async () => {
    const { stack, open, key, vendor } = world()
    const { app, at, name } = await vendor()
    const leaving = await key(['read', 'admin'])
    await using window = await open({ key: leaving.key, at: at('/plans') })
    const { field, button, dialog } = window
    await button('New plan').click()
    await field('Name', dialog('New plan')).fill('Professional')
    await field('Code', dialog('New plan')).fill('pro')
    expect((await stack.api.delete(`/v1/api-keys/${leaving.id}`)).status).toBe(204)
    await eventually(async () => {
      expect((await stack.api.get('/v1/api-keys/self', { key: leaving.key })).status).toBe(401)
    })
    await button('Create', dialog('New plan')).click()
    await field('API key').fill(stack.apiKey)
    await button('Sign in').click()
    await dialog('New plan').waitFor()
    await eventually(async () =>
      expect(await field('Name', dialog('New plan')).inputValue()).toBe('Professional'),
    )
    await button('Create', dialog('New plan')).click()
    await window.heading('Plans').waitFor()
    await window.table('Plans').getByRole('link', { name: 'Professional' }).waitFor()
    expect((await stack.api.get<{ data: object[] }>(`${app}/plans`)).body.data).toMatchObject([
      { code: 'pro' },
    ])
    const chosen = field('Application').locator('option:checked')
    await eventually(async () => expect(await chosen.textContent()).toBe(name))
  })

  test('actions that the key’s scopes do not allow are absent, and a page that it may not read names the scope', async () => {
    const { open, key, vendor, receiver } = world()
    const { at, plan, issue, endpoint } = await vendor()
    const { id: planId } = await plan()
    const { id } = await issue(planId, 'customer-1')
    await endpoint(receiver.url('/scopes'))
    {
      const { key: reading } = await key(['read'])
      await using window = await open({ key: reading, at: at('/licences') })
      await window.page.getByRole('link', { name: 'customer-1' }).click()
      await window.region('History').waitFor()
      for (const name of ['Suspend', 'Revoke', 'Retire', 'Edit', 'Issue licence']) {
        expect(await window.button(name).count(), name).toBe(0)
      }
      await window.goTo('Plans')
      await window.page.getByRole('link', { name: 'Pro' }).click()
      await window.heading('Pro').waitFor()
      expect(await window.button('Archive').count()).toBe(0)
      await window.goTo('Webhooks')
      await window.table('Endpoints').getByRole('link').waitFor()
      for (const name of ['Add endpoint', 'Send test event'])
        expect(await window.button(name).count(), name).toBe(0)
    }
    const { key: issuing } = await key(['issue'])
    await using window = await open({ key: issuing, at: at(`/licences/${id}`) })
    await window.page.getByText(/needs a key with the scope read/).waitFor()
    for (const [link, scope] of [
      ['Overview', 'read'],
      ['Plans', 'admin or read'],
      ['Webhooks', 'admin or read'],
    ] as const) {
      await window.goTo(link)
      await window.page.getByText(`needs a key with the scope ${scope}`).waitFor()
    }
  })
})

const asPortal = { headers: { 'x-requested-with': 'portal' } }
