import type { Locator } from 'playwright-core'
import { expect, test } from 'vitest'
import { portalTests } from './world.ts'

interface Box {
  parentElement: { scrollWidth: number; clientWidth: number }
}

/** How many pixels wider a table is than the box that scrolls it. */
const overflow = (table: Locator) =>
  table.evaluate((element) => {
    const { parentElement: box } = element as unknown as Box
    return box.scrollWidth - box.clientWidth
  })
const heightOf = async (element: Locator) => (await element.boundingBox())!.height

portalTests('dense pages', (world) => {
  test('a long reference or plan name is cut off on one line, and complete in its title and on a phone', async () => {
    const { open, vendor } = world()
    const one = await vendor()
    const planName = 'Enterprise annual commitment with legacy terms and premium support'
    const reference = `customer ${'x'.repeat(200)}`
    await one.issue((await one.plan(planName)).id, reference)
    await using window = await open({ at: one.at('/licences') })
    const { page, table } = window
    const row = table('Licences').getByRole('row').nth(1)
    await row.getByTitle(planName, { exact: true }).waitFor()
    expect(await row.getByTitle(reference, { exact: true }).count()).toBe(1)
    expect(await heightOf(row)).toBeLessThan(50)
    expect(await overflow(table('Licences'))).toBe(0)
    await page.setViewportSize({ width: 360, height: 800 })
    expect(await heightOf(row.getByTitle(reference, { exact: true }))).toBeGreaterThan(100)
  })

  test('the buttons of an override are visible with any key', async () => {
    const { stack, open, vendor } = world()
    const one = await vendor()
    await one.define('seats', 'limit', '3')
    await one.define('single_sign_on_for_every_team_of_the_organisation', 'limit', '3')
    const { id } = await one.issue((await one.plan('Pro')).id, 'customer-1')
    const body = { value: '25', ends_on: '2031-05-03T00:00:00Z', note: 'promised in ticket 812' }
    expect((await stack.api.put(`/v1/licences/${id}/overrides/seats`, { body })).status).toBe(200)
    await using window = await open({ at: one.at(`/licences/${id}`) })
    await window.button('Remove override').waitFor()
    expect(await overflow(window.table('Entitlements'))).toBe(0)
  })

  test('the button of a long form stays visible while the form scrolls', async () => {
    const { open, vendor } = world()
    const one = await vendor()
    await one.plan('Pro')
    await using window = await open({ at: one.at('/licences') })
    const { page, button, dialog } = window
    await page.setViewportSize({ width: 360, height: 600 })
    await button('Issue licence').click()
    const issue = button('Issue', dialog('Issue licence'))
    await issue.waitFor()
    const bottomOf = async () => {
      const { y, height } = (await issue.boundingBox())!
      return y + height
    }
    expect(await bottomOf()).toBeLessThan(600)
    // The buttons do not cover a field that has the focus.
    const last = window.field('Lease in minutes', dialog('Issue licence'))
    await last.focus()
    const field = (await last.boundingBox())!
    expect(field.y + field.height).toBeLessThan((await issue.boundingBox())!.y)
    expect(await bottomOf()).toBeLessThan(600)
  })
})
