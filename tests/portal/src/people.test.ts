import { fullTest } from '@licensing/test-support/drawn'
import { freeAddress } from '@licensing/test-support/free-address'
import { identityProviderSettings, startIdentityProvider } from '@licensing/test-support/identity-provider'
import { eventually } from '@licensing/test-support/poll'
import { startService } from '@licensing/test-support/process'
import { runAdmin } from '@licensing/test-support/run-admin'
import type { Stack } from '@licensing/test-support/stack-shape'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { randomUUID } from 'node:crypto'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { expectAccessible, pageWidth } from './looks.ts'
import { portalTests } from './world.ts'

/** One more gateway of the stack, at which people sign in at the simulated identity provider. */
async function startPeoplesGateway(stack: Stack): Promise<Stack & AsyncDisposable> {
  await using started = new AsyncDisposableStack()
  const [address, issuer] = [await freeAddress(), await freeAddress()]
  const url = `http://${address}`
  const { environment } = stack.processes.gateway[0]!
  const own = { HTTP_ADDRESS: address, METRICS_ADDRESS: await freeAddress(), PUBLIC_URL: url }
  const folder = started.use(await makeTemporaryFolder())
  const gateway = await startService(
    'gateway',
    { ...environment, ...own, ...identityProviderSettings(issuer) },
    folder.path,
  )
  started.defer(async () => void (await gateway.stop()))
  started.use(await startIdentityProvider(issuer, url))
  const running = started.move()
  return { ...stack, gatewayUrl: url, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

async function signInAtProvider(page: Page, email: string, name: string): Promise<void> {
  await page.getByRole('button', { name: 'Sign in with the simulated provider' }).click()
  await page.getByLabel('E-mail address').fill(email)
  await page.getByLabel('Name').fill(name)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

const newAddress = () => `ann-${randomUUID().slice(0, 8)}@example.com`

portalTests('people', (world) => {
  test('an owner signs in, adds a member of one application, changes the role, removes the member, and is signed out when removed', async () => {
    const { stack, open, vendor } = world()
    await using people = await startPeoplesGateway(stack)
    const { name: studio } = await vendor()
    const email = newAddress()
    const add = (role: string, address: string) =>
      stack.api.post<{ id: string }>('/v1/members', { body: { email: address, role } })
    const owner = (await add('owner', email)).body
    // So that the other one is not the last owner.
    await add('owner', newAddress())

    await using window = await open({ key: null })
    const { page, button, field, dialog, table } = window
    await page.goto(`${people.gatewayUrl}/portal/settings`)
    await button('Sign in with the simulated provider').waitFor()
    await expectAccessible(page, 'sign-in-with-provider')
    await signInAtProvider(page, email.toUpperCase(), 'Ann Example')
    await window.heading('Settings').waitFor()
    const frame = page.getByRole('banner')
    await frame.getByText('Ann Example').waitFor()
    await frame.getByText('owner', { exact: true }).waitFor()

    const other = newAddress()
    await button('Add member').click()
    const form = dialog('Add member')
    await expectAccessible(page, 'add-member')
    await field('E-mail address', form).fill('not an address')
    await button('Add', form).click()
    await form.getByText('must be an e-mail address').first().waitFor()
    await field('E-mail address', form).fill(other)
    await field('Role', form).selectOption('support')
    await field('Application', form).selectOption(studio)
    await button('Add', form).click()
    const row = table('Members').getByRole('row', { name: other })
    await row.getByText(studio).waitFor()
    await row.getByText('never').waitFor()
    await button(`Change role of ${other}`, row).click()
    await field('Role', dialog('Change role')).selectOption('viewer')
    await button('Save', dialog('Change role')).click()
    await row.getByText('viewer', { exact: true }).waitFor()
    await expectAccessible(page, 'members')
    await button('Remove', row).click()
    await window.confirm('Remove')
    await row.getByText('removed').waitFor()
    expect(await button('Remove', row).count()).toBe(0)
    expect(window.complaints.filter((text) => !/status of (404|422)/.test(text))).toEqual([])

    expect((await stack.api.delete(`/v1/members/${owner.id}`)).status).toBe(204)
    await eventually(async () => {
      await page.reload()
      expect(await button('Sign in with the simulated provider').isVisible()).toBe(true)
    })
    await signInAtProvider(page, email, 'Ann Example')
    await page.getByRole('heading', { name: 'No access' }).waitFor()
    await expectAccessible(page, 'no-access')
  })

  test('a key with scope admin adds and removes a member', async () => {
    await using window = await world().open({ at: '/settings' })
    const { button, field, dialog, table } = window
    await window.page.getByText('Signed in with the key').waitFor({ state: 'attached' })
    const email = newAddress()
    await button('Add member').click()
    await field('E-mail address', dialog('Add member')).fill(email)
    await button('Add', dialog('Add member')).click()
    const row = table('Members').getByRole('row', { name: email })
    await button('Remove', row).click()
    await window.confirm('Remove')
    await row.getByText('removed').waitFor()
  })

  test('a person of several accounts chooses one, and what a viewer may not do is absent', async () => {
    const { stack, open } = world()
    await using people = await startPeoplesGateway(stack)
    const email = newAddress()
    const made = await runAdmin(stack, 'create-account', '--name', 'Other & Company')
    const { key } = JSON.parse(made.stdout) as { key: string }
    for (const options of [{}, { key }]) {
      const body = { email, role: 'viewer' }
      expect((await stack.api.post('/v1/members', { body, ...options })).status).toBe(201)
    }
    await using window = await open({ key: null, width: 360 })
    const { page, button } = window
    await page.goto(`${people.gatewayUrl}/portal/licences?status=active`)
    await signInAtProvider(page, email, 'Ann')
    await window.heading('Choose an account').waitFor()
    await expectAccessible(page, 'choose-account')
    await page.setViewportSize({ width: 360, height: 900 })
    await button('Other & Company').focus()
    await page.keyboard.press('Enter')
    await window.heading('Licences').waitFor()
    expect(new URL(page.url()).searchParams.get('status')).toBe('active')
    expect(await button('Issue licence').count()).toBe(0)
    expect(await page.evaluate<number>(pageWidth)).toBeLessThanOrEqual(360)
    await button('Sign out').click()
    await window.field('API key').waitFor()
    const own = await page.context().request.get(`${people.gatewayUrl}/v1/api-keys/self`, {
      headers: { 'x-requested-with': 'portal' },
    })
    expect(own.status()).toBe(401)
  })

  fullTest('the history of a licence names the person', async () => {
    const { stack, open, vendor } = world()
    await using people = await startPeoplesGateway(stack)
    const studio = await vendor()
    const licence = await studio.issue((await studio.plan()).id, 'customer-1')
    const email = newAddress()
    await stack.api.post('/v1/members', { body: { email, role: 'support' } })
    await using window = await open({ key: null })
    await window.page.goto(`${people.gatewayUrl}/portal/licences/${licence.id}`)
    await signInAtProvider(window.page, email, 'Sue Support')
    await window.heading('customer-1').waitFor()
    await window.button('Suspend').click()
    await window.confirm('Suspend')
    await window.table('History').getByText('Sue Support').waitFor()
    const { body } = await stack.api.get<{ data: object[] }>(`/v1/licences/${licence.id}/history`)
    expect(body.data).toMatchObject([
      { type: 'suspended', actor: expect.stringMatching(/^usr_/), actor_name: 'Sue Support' },
      { type: 'issued', actor: expect.stringMatching(/^key_/), actor_name: 'Demo' },
    ])
  })
})
