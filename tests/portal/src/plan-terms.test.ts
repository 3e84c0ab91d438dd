import { eventually } from '@licensing/test-support/poll'
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { expectEveryLook } from './looks.ts'
import { portalTests } from './world.ts'

portalTests('terms of a plan', (world) => {
  test('a plan’s trials and metadata are set, changed and removed', async () => {
    const { stack, open, vendor } = world()
    const one = await vendor()
    const { id } = await one.plan('Pro')
    const plan = async () =>
      (
        await stack.api.get<{ trial_days: number | null; metadata: object; name: string }>(
          `${one.app}/plans/${id}`,
        )
      ).body
    await using window = await open({ at: one.at(`/plans/${id}`), bypassCSP: true })
    const { page, button, dialog, field, table } = window
    await page.locator('dl').first().getByText('none').waitFor()
    await button('Edit').click()
    const edit = dialog('Edit plan')
    await field('Days of a trial', edit).fill('1000')
    await button('Save', edit).click()
    await edit.getByText('must be at most 366').first().waitFor()
    expect(await field('Days of a trial', edit).getAttribute('aria-invalid')).toBe('true')
    await expectEveryLook(page, 'plan-edit-refused')
    await field('Days of a trial', edit).fill('14')
    await button('Save', edit).click()
    await edit.waitFor({ state: 'hidden' })
    await page.locator('dl').getByText('14 days').waitFor()
    expect(await plan()).toMatchObject({ name: 'Pro', trial_days: 14 })
    await button('Edit metadata').click()
    const metadata = dialog('Edit metadata')
    await button('Add metadata', metadata).click()
    await field('Metadata name 1', metadata).fill('tier')
    await field('Metadata value 1', metadata).fill('2')
    await button('Save', metadata).click()
    await metadata.waitFor({ state: 'hidden' })
    await table('Metadata').getByRole('row', { name: 'tier 2' }).waitFor()
    await button('Edit').click()
    await field('Days of a trial', edit).fill('')
    await button('Save', edit).click()
    await edit.waitFor({ state: 'hidden' })
    expect(await plan()).toMatchObject({ trial_days: null, metadata: { tier: '2' } })
  })

  test('a price with months of updates is set, changed and deleted', async () => {
    const { stack, open, vendor } = world()
    const one = await vendor()
    const { id } = await one.plan('Pro')
    const price = () => stack.api.get(`${one.app}/plans/${id}/price`)
    await using window = await open({ at: one.at(`/plans/${id}`), bypassCSP: true })
    const { page, region, button, confirm, dialog, field } = window
    await region('Price').getByText('The plan has no price').waitFor()
    await button('Set price').click()
    const edit = dialog('Price')
    const priceId = `price_${randomUUID()}`
    await field('Price at the processor', edit).fill(priceId)
    await field('Amount', edit).fill('a lot')
    await field('Currency', edit).fill('eur')
    await field('Months of updates', edit).fill('121')
    await button('Save', edit).click()
    await edit.getByText('Enter an amount').waitFor()
    await field('Amount', edit).fill('49.50')
    await button('Save', edit).click()
    await edit.getByText('must be at most 120').first().waitFor()
    await expectEveryLook(page, 'plan-price-refused')
    await field('Months of updates', edit).fill('12')
    await button('Save', edit).click()
    await edit.waitFor({ state: 'hidden' })
    expect((await price()).body).toEqual({
      plan_id: id,
      price_id: priceId,
      amount: 4950,
      currency: 'eur',
      mode: 'payment',
      period_months: null,
      updates_months: 12,
    })
    await region('Price').getByText('€49.50').waitFor()
    await region('Price').getByText('12 months').waitFor()
    await expectEveryLook(page, 'plan-price')
    await button('Delete price').click()
    await confirm('Delete price')
    await region('Price').getByText('The plan has no price').waitFor()
    expect((await price()).status).toBe(404)
  })

  test('an application’s name and its notice before expiry are changed', async () => {
    const { stack, open, vendor } = world()
    const one = await vendor()
    await using window = await open({ at: one.at('/settings'), bypassCSP: true })
    const { page, dialog, field, button, table } = window
    const row = table('Applications').getByRole('row').filter({ hasText: one.appId })
    await row.getByText('14 days').waitFor()
    await button(`Edit ${one.name}`).click()
    const edit = dialog('Edit application')
    await field('Notice before expiry, in days', edit).fill('91')
    await button('Save', edit).click()
    await edit.getByText('must be at most 90').first().waitFor()
    await expectEveryLook(page, 'settings-application-refused')
    await field('Notice before expiry, in days', edit).fill('0')
    await field('Name', edit).fill(`${one.name} 2`)
    await button('Save', edit).click()
    await edit.waitFor({ state: 'hidden' })
    await row.getByText('off').waitFor()
    await row.getByRole('cell', { name: `${one.name} 2`, exact: true }).waitFor()
    expect((await stack.api.get(`/v1/apps/${one.appId}`)).body).toMatchObject({
      name: `${one.name} 2`,
      expiring_notice_days: 0,
    })
    // The list of applications has the new name too.
    await eventually(async () =>
      expect(
        await page.getByLabel('Application', { exact: true }).locator('option:checked').textContent(),
      ).toBe(`${one.name} 2`),
    )
  })
})
