import { verifyWebhook } from '@licensing/sdk/webhooks'
import { expect, test } from 'vitest'
import { portalTests } from './world.ts'

portalTests('getting started', (world) => {
  test('a new application shows four steps from the first entitlement to the first verified webhook', async () => {
    const { stack, receiver, open, vendor } = world()
    const { appId, app, at, licences } = await vendor()
    await using window = await open({ at: at('') })
    const { page, dialog, field, button } = window
    const steps = window.region('Getting started')
    const follow = async (link: string) => {
      await window.goTo('Overview')
      await steps.getByRole('link', { name: link }).click()
    }

    await follow('New entitlement')
    const entitlement = dialog('New entitlement')
    await field('Key', entitlement).fill('max_projects')
    await field('Kind', entitlement).selectOption('limit')
    await field('Display name', entitlement).fill('Projects')
    await field('Default', entitlement).fill('3')
    await button('Create', entitlement).click()
    await window.table('Entitlements').getByRole('cell', { name: 'max_projects' }).waitFor()

    await follow('New plan')
    const plan = dialog('New plan')
    await field('Name', plan).fill('Studio')
    await field('Code', plan).fill('studio')
    await button('Create', plan).click()
    await window.table('Plans').getByRole('link', { name: 'Studio' }).waitFor()

    await follow('Issue licence')
    const issue = dialog('Issue licence')
    await field('Customer reference', issue).fill('customer-1')
    await field('Plan', issue).selectOption('Studio')
    await button('Issue', issue).click()
    await button('Copy key', issue).click()
    const [licence] = await licences()
    expect(await page.evaluate<string>('navigator.clipboard.readText()')).toBe(licence?.key)
    await page.keyboard.press('Escape')
    await issue.waitFor({ state: 'hidden' })

    await follow('Add endpoint')
    const endpoint = dialog('Add endpoint')
    await field('URL', endpoint).fill(receiver.url('/first'))
    await button('Add', endpoint).click()
    const shown = dialog('Signing secret')
    await button('Copy secret', shown).click()
    const secret = await page.evaluate<string>('navigator.clipboard.readText()')
    expect(await shown.textContent()).toContain(secret)
    await button('Done', shown).click()
    await shown.waitFor({ state: 'hidden' })
    expect(await page.content()).not.toContain(secret)

    await button('Send test event').click()
    await window.table('Deliveries').getByRole('row').filter({ hasText: 'delivered' }).waitFor()
    const arrived = receiver.requests.find(({ path }) => path === '/first')
    const verified = await verifyWebhook(arrived!.body, String(arrived!.headers['webhook-signature']), secret)
    expect(verified).toMatchObject({ type: 'webhook.test', application_id: appId })

    await window.goTo('Overview')
    await window.region('Active licences').waitFor()
    await steps.waitFor({ state: 'detached' })
    const plans = await stack.api.get<{ data: object[] }>(`${app}/plans`)
    expect(plans.body.data).toMatchObject([{ name: 'Studio', code: 'studio', active_licences: 1 }])
    expect(window.complaints).toEqual([])
  })
})
