import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { expectAccessible } from './looks.ts'
import { portalTests, type Vendor, type World } from './world.ts'

interface Detail {
  key: string
  metadata: Record<string, string>
  effective: { key: string; value: string; from: string }[]
  overrides: { key: string; value: string; ends_on: string | null; note: string | null }[]
  plan_drift: unknown[]
}

const detailOf = async ({ stack }: World, id: string) =>
  (await stack.api.get<Detail>(`/v1/licences/${id}`)).body

/** A licence of a plan with a limit and a feature. */
async function givenLicence({ define, plan, issue }: Vendor, fields: object = {}) {
  await define('export_pdf', 'feature', 'false')
  await define('max_projects', 'limit', '3')
  const { id: planId } = await plan('Pro', [{ key: 'max_projects', value: '10' }])
  return { planId, licence: await issue(planId, 'customer-1', fields) }
}

portalTests('fields of a licence', (world) => {
  test('metadata is edited by entry, and unchanged entries and entries that others add meanwhile stay', async () => {
    const { stack, open, vendor } = world()
    const one = await vendor()
    const { licence } = await givenLicence(one, { metadata: { crm_id: 'A-1', tier: '2', old: 'x' } })
    const metadata = async () => (await detailOf(world(), licence.id)).metadata
    await using window = await open({ at: one.at(`/licences/${licence.id}`) })
    const { button, dialog, field, table } = window
    await table('Metadata').getByRole('row', { name: 'crm_id A-1' }).waitFor()
    await button('Edit metadata').click()
    const edit = dialog('Edit metadata')
    // Entries are sorted by name: crm_id, old, tier.
    await field('Metadata value 1', edit).fill('A-2')
    await button('Remove metadata 2', edit).click()
    await button('Add metadata', edit).click()
    await edit.locator('[aria-label="Metadata name 3"]:focus').waitFor()
    await field('Metadata name 3', edit).fill('not allowed')
    await field('Metadata value 3', edit).fill('eu')
    await stack.api.patch(`/v1/licences/${licence.id}`, { body: { metadata: { by_others: '1' } } })
    await button('Save', edit).click()
    await edit.getByText('must', { exact: false }).last().waitFor()
    expect(await field('Metadata value 3', edit).getAttribute('aria-invalid')).toBe('true')
    expect(await metadata()).toEqual({ by_others: '1', crm_id: 'A-1', old: 'x', tier: '2' })
    await expectAccessible(window.page, 'licence-metadata')
    // A duplicate name is refused before anything is sent.
    await field('Metadata name 3', edit).fill('tier')
    await button('Save', edit).click()
    await edit.getByText('This name is there twice.').first().waitFor()
    await field('Metadata name 3', edit).fill('region')
    await button('Save', edit).click()
    await edit.waitFor({ state: 'hidden' })
    expect(await metadata()).toEqual({ by_others: '1', crm_id: 'A-2', region: 'eu', tier: '2' })
    await table('History').getByText('metadata: crm_id: A-1 → A-2').waitFor()
  })

  test('overrides of a limit and of a feature, with an end and a note, are set, changed and removed', async () => {
    const { open, vendor } = world()
    const one = await vendor()
    const { licence } = await givenLicence(one)
    await using window = await open({ at: one.at(`/licences/${licence.id}`) })
    const { button, dialog, field, table, confirm } = window
    const row = (key: string) => table('Entitlements').getByRole('row').filter({ hasText: key })
    await row('max_projects').getByText('snapshot').waitFor()
    await button('Override max_projects').click()
    const limit = dialog('Override max_projects')
    await limit.getByText('Without the override: 10.').waitFor()
    await field('Value', limit).fill('25')
    await field('Ends on', limit).fill('2031-05-03')
    await field('Note', limit).fill('promised in ticket 812')
    await button('Save', limit).click()
    await limit.waitFor({ state: 'hidden' })
    await row('max_projects').getByText('promised in ticket 812').waitFor()
    await row('max_projects').getByText('until 3 May 2031').waitFor()
    expect(await row('max_projects').textContent()).toMatch(/25 override/)

    await button('Override export_pdf').click()
    const feature = dialog('Override export_pdf')
    await field('Value', feature).selectOption('true')
    await button('Save', feature).click()
    await feature.waitFor({ state: 'hidden' })
    const ofLimit = { ends_on: '2031-05-03T23:59:59.999Z', note: 'promised in ticket 812' }
    expect(await detailOf(world(), licence.id)).toMatchObject({
      effective: [
        { key: 'export_pdf', value: 'true', from: 'override' },
        { key: 'max_projects', value: '25', from: 'override' },
      ],
      overrides: [
        { key: 'export_pdf', value: 'true', ends_on: null, note: null },
        { key: 'max_projects', value: '25', ...ofLimit },
      ],
    })
    await expectAccessible(window.page, 'licence-overrides')

    // The dialog starts with the present values.
    await button('Change max_projects').click()
    expect(await field('Ends on', limit).inputValue()).toBe('2031-05-03')
    await field('Value', limit).fill('30')
    await button('Save', limit).click()
    await limit.waitFor({ state: 'hidden' })
    await button('Remove override', row('export_pdf')).click()
    await confirm('Remove override')
    await eventually(async () => expect(await row('export_pdf').textContent()).not.toContain('override'))
    expect((await detailOf(world(), licence.id)).overrides).toMatchObject([{ value: '30', ...ofLimit }])
    await table('History').getByText('override of export_pdf: true → none').waitFor()
    expect(window.complaints).toEqual([])
  })

  test('a licence takes the plan’s values after the page and the dialog showed the difference', async () => {
    const { stack, open, vendor } = world()
    const one = await vendor()
    const { planId, licence } = await givenLicence(one)
    await using window = await open({ at: one.at(`/licences/${licence.id}`) })
    const { page, button, confirm, table } = window
    const row = table('Entitlements').getByRole('row').filter({ hasText: 'max_projects' })
    await row.waitFor()
    expect(await button('Take the plan’s values').count()).toBe(0)
    await stack.api.patch(`${one.app}/plans/${planId}`, {
      body: { entitlements: [{ key: 'max_projects', value: '20' }] },
    })
    await page.reload()
    await button('Take the plan’s values').click()
    await page.getByRole('alertdialog').getByText('max_projects: 10 → 20').waitFor()
    // A row behind a dialog has no accessible role.
    expect(await page.locator('table[aria-label=Entitlements]').textContent()).toMatch(/10.*20/)
    await confirm('Take the plan’s values')
    await eventually(async () => expect(await button('Take the plan’s values').count()).toBe(0))
    expect(await detailOf(world(), licence.id)).toMatchObject({ plan_drift: [] })
    await table('History').getByText('entitlements: max_projects: 10 → 20').waitFor()
  })

  test('a new key is created once after a confirmation, shown and copied; before that the old key stays', async () => {
    const { stack, open, vendor } = world()
    const one = await vendor()
    const licence = await one.issue((await one.plan()).id, 'customer-1')
    await using window = await open({ at: one.at(`/licences/${licence.id}`) })
    const { page, button, confirm, dialog } = window
    await button('New key').click()
    const asks = page.getByRole('alertdialog', { name: 'New key' })
    await button('Cancel', asks).click()
    expect((await detailOf(world(), licence.id)).key).toBe(licence.key)
    await button('New key').click()
    const lost = await window.loseAnswers('POST', '**/rotate-key')
    await button('New key', asks).click()
    await asks.getByText('The service cannot be reached.').waitFor()
    const { key: made } = lost[0] as { key: string }
    await page.unroute('**/rotate-key')
    await confirm('New key')
    const shown = dialog('The new key')
    await shown.getByText(made).waitFor()
    await shown.getByText('Copied').waitFor()
    expect(await page.evaluate<string>('navigator.clipboard.readText()')).toBe(made)
    await button('Done', shown).click()
    await page.locator('main').getByText(made).waitFor()
    expect((await detailOf(world(), licence.id)).key).toBe(made)
    const { body } = await stack.api.get<{ data: { type: string }[] }>(`/v1/licences/${licence.id}/history`)
    expect(body.data.filter(({ type }) => type === 'key_rotated')).toHaveLength(1)
  })
})
