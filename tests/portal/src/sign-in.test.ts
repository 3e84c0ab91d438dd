import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { expectAccessible } from './looks.ts'
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
    await expectAccessible(page, 'sign-in')
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
    const { page, button } = window
    const follow = (address: string) => page.goto(`${stack.gatewayUrl}/portal${address}`)
    const asks = page.getByRole('alertdialog')
    await asks.getByText('the key Demo (').waitFor()
    expect(await page.evaluate<string>('location.href + JSON.stringify(history.state)')).not.toContain('lsk_')
    // The form behind the dialog has no accessible role.
    expect(await button('Sign in').count()).toBe(1)
    await expectAccessible(page, 'sign-in-link')
    await button('Cancel', asks).click()
    await window.field('API key').waitFor()
    expect(await page.context().cookies()).toEqual([])
    await follow(`#key=${stack.apiKey}`)
    await button('Sign in', asks).click()
    await window.heading('Overview').waitFor()
    expect(page.url()).not.toContain('lsk_')

    const other = await key(['read'])
    await follow(`#key=${other.key}`)
    await asks.getByText('instead of Demo').waitFor()
    await button('Cancel', asks).click()
    await asks.waitFor({ state: 'hidden' })
    expect(page.url()).not.toContain('lsk_')
    const name = async () => (await page.request.get(`${stack.gatewayUrl}/v1/api-keys/self`, asPortal)).json()
    expect(await name()).toMatchObject({ name: 'Demo' })
    await follow(`/licences#key=${other.key}`)
    await button('Sign in', asks).click()
    await eventually(async () => expect(await name()).toMatchObject({ name: 'read' }))
    await window.heading('Licences').waitFor()
    // A link with the key that is already signed in changes nothing.
    await follow(`/plans#key=${other.key}`)
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

  test('if the key is revoked, the sign-in form is shown, and after the sign-in the typed input is restored', async () => {
    const { stack, open, key, vendor } = world()
    const { app, at, name } = await vendor()
    const leaving = await key(['read', 'admin'])
    await using window = await open({ key: leaving.key, at: at('/plans') })
    const { field, button, dialog } = window
    const plan = dialog('New plan')
    await button('New plan').click()
    await field('Name', plan).fill('Professional')
    await field('Code', plan).fill('pro')
    expect((await stack.api.delete(`/v1/api-keys/${leaving.id}`)).status).toBe(204)
    await eventually(async () => {
      expect((await stack.api.get('/v1/api-keys/self', { key: leaving.key })).status).toBe(401)
    })
    await button('Create', plan).click()
    await field('API key').fill(stack.apiKey)
    await button('Sign in').click()
    await plan.waitFor()
    await eventually(async () => expect(await field('Name', plan).inputValue()).toBe('Professional'))
    await button('Create', plan).click()
    await window.table('Plans').getByRole('link', { name: 'Professional' }).waitFor()
    const plans = await stack.api.get<{ data: object[] }>(`${app}/plans`)
    expect(plans.body.data).toMatchObject([{ code: 'pro' }])
    const chosen = field('Application').locator('option:checked')
    await eventually(async () => expect(await chosen.textContent()).toBe(name))
  })
})

const asPortal = { headers: { 'x-requested-with': 'portal' } }
