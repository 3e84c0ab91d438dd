import { apiClient } from '@licensing/test-support/api-client'
import { runAdmin } from '@licensing/test-support/run-admin'
import type { Stack } from '@licensing/test-support/stack-shape'
import { expect, test } from 'vitest'
import { connectProcessor, newAccount } from './processor.ts'
import { expectAccessible } from './looks.ts'
import type { Window } from './window.ts'
import { portalTests } from './world.ts'

/** Creates another vendor account, which cannot connect the first account's processor. */
async function makeAccount(stack: Stack) {
  const { stdout } = await runAdmin(stack, 'create-account', '--name', 'Ada & Sons')
  const { account_id: id, key } = JSON.parse(stdout) as { account_id: string; key: string }
  const api = apiClient(stack.gatewayUrl, key)
  return { id, key, connected: async () => (await api.get('/v1/processor')).body }
}

/** Begins a connection in the portal, and presses a button on the processor's consent page. */
async function decide(
  window: Window,
  stack: Stack,
  action: 'Give access' | 'Refuse',
  account = newAccount(),
) {
  const { page } = window
  await window.button('Continue to Stripe', window.region('Processor')).click()
  await page.waitForURL(({ href }) => href.startsWith(`${stack.simulator!.url}/oauth/authorize?`))
  await page.getByLabel('Account').fill(account)
  await page.getByRole('button', { name: action }).click()
}

async function goBack(window: Window): Promise<void> {
  await window.page.getByRole('link', { name: /^Back to the portal/ }).click()
  await window.heading('Settings').waitFor()
  await window.page.locator('h2:focus', { hasText: 'Processor' }).waitFor()
}

portalTests('processor', (world) => {
  let made: ReturnType<typeof makeAccount> | undefined
  const account = () => (made ??= makeAccount(world().stack))

  test('a refused consent, another vendor’s account and an unproven account each show advice and change nothing', async () => {
    const { stack, open } = world()
    await connectProcessor(world())
    const taken = (await stack.api.get<{ connected_account: string }>('/v1/processor')).body.connected_account
    const { key, connected } = await account()
    await using window = await open({ key, at: '/settings' })
    const { page, button, field } = window
    const region = window.region('Processor')

    await decide(window, stack, 'Refuse')
    await window.heading('Not connected').waitFor()
    await page.getByRole('alert').getByText('begin again, and give it there').waitFor()
    await expectAccessible(page, 'processor-refused')
    await goBack(window)

    await decide(window, stack, 'Give access', taken)
    await button('Connect').click()
    await page.getByRole('alert').getByText(`${taken} is connected to another vendor account: `).waitFor()
    await goBack(window)

    await field('Stripe account').fill('acct_1Unproven')
    await button('Connect', region).click()
    await region.getByRole('alert').getByText('Use “Continue to Stripe”').waitFor()
    expect(await field('Stripe account').inputValue()).toBe('acct_1Unproven')
    expect(await connected()).toMatchObject({ code: 'not_found' })
  })

  test('a processor is connected on its consent page, which returns to the portal, where the account is shown', async () => {
    const { stack, open } = world()
    const { id, key, connected } = await account()
    const ours = newAccount()
    await using window = await open({ key, at: '/settings' })
    const { page, button, field } = window
    const region = window.region('Processor')
    await decide(window, stack, 'Give access', ours)
    await window.heading('Connect this account?').waitFor()
    const text = await page.locator('main').textContent()
    for (const named of ['Ada & Sons', id, ours]) expect(text).toContain(named)
    await expectAccessible(page, 'processor-connect')
    const back = page.url()
    expect(await connected()).toMatchObject({ code: 'not_found' })
    await button('Connect').click()
    await window.heading('Connected').waitFor()
    await goBack(window)
    await region.getByRole('status').getByText(`${ours} is connected`).waitFor()
    await region.getByText('test payments').waitFor()
    expect(await connected()).toMatchObject({ connected_account: ours, livemode: false })

    // An account that was proven before can be connected by its id.
    const other = newAccount()
    await decide(window, stack, 'Give access', other)
    await button('Connect').click()
    await goBack(window)
    await region.getByRole('definition').getByText(other).waitFor()
    await field('Stripe account').fill(ours)
    await button('Connect another', region).click()
    await region.getByRole('definition').getByText(ours).waitFor()
    expect(await connected()).toMatchObject({ connected_account: ours })

    // A used link gets the same error as an expired one.
    await page.goto(back)
    await page.getByRole('alert').getByText('This link was used before, is older than 15 minutes').waitFor()
    await goBack(window)
  })
})
