import { fullTest } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { violations } from './looks.ts'
import type { Window } from './window.ts'
import { portalTests } from './world.ts'

/** Functions that use only the keyboard. */
function keyboardOf({ page }: Window) {
  const focused = () =>
    page.evaluate<string>("document.activeElement.ariaLabel ?? document.activeElement.textContent ?? ''")
  return {
    press: (key: string) => page.keyboard.press(key),
    type: (text: string) => page.keyboard.type(text),
    // Presses Tab until the element has the focus, because it may appear late.
    tabTo: (name: string) =>
      eventually(
        async () => {
          await page.keyboard.press('Tab')
          expect(await focused()).toBe(name)
        },
        { intervalMs: 5 },
      ),
    isAt: (name: string) => eventually(async () => expect(await focused()).toBe(name)),
    isAtField: (name: string) => page.locator(`[name="${name}"]:focus`).waitFor(),
    heard: (text: string) =>
      page.locator('[aria-live=polite]', { hasText: text }).waitFor({ state: 'attached' }),
  }
}

portalTests('keyboard', (world) => {
  fullTest(
    'every table that is too wide or too long can be scrolled with the keyboard, at any width',
    async () => {
      const { open, vendor } = world()
      const { at, plan, sell } = await vendor()
      const { id: planId } = await plan('P'.repeat(200))
      await sell(planId, 'customer-1', { sale_id: 's'.repeat(100) })
      await using window = await open({ at: at('/payments'), width: 360 })
      const { page } = window
      const unreachable = async () => {
        const found: string[] = []
        for (const width of [360, 700, 1280, 360]) {
          await page.setViewportSize({ width, height: 800 })
          const all = await violations(page, ['scrollable-region-focusable'])
          found.push(...all.map((what) => `${width}: ${what}`))
        }
        return found
      }
      await window.table('Payments').getByRole('cell').first().waitFor()
      expect(await unreachable()).toEqual([])
      // Rows without a link have nothing to focus, so the table itself must be focusable.
      await page.setViewportSize({ width: 700, height: 800 })
      const scroller = `document.querySelector('table[aria-label="Payments"]').parentElement`
      const isFocused = () => page.evaluate<boolean>(`${scroller} === document.activeElement`)
      await eventually(
        async () => {
          await page.keyboard.press('Tab')
          expect(await isFocused()).toBe(true)
        },
        { intervalMs: 5 },
      )
      await page.keyboard.press('ArrowRight')
      await eventually(async () =>
        expect(await page.evaluate<number>(`${scroller}.scrollLeft`)).toBeGreaterThan(0),
      )

      await page.setViewportSize({ width: 1280, height: 900 })
      await window.goTo('Overview')
      await window.region('Alerts').waitFor()
      for (const name of ['Active licences', 'New licences', 'Revenue', 'Webhook deliveries']) {
        await window.button('Show as table', window.region(name)).click()
        await window.table(name).getByRole('cell').first().waitFor()
      }
      expect(await unreachable()).toEqual([])
    },
  )

  test('with only the keyboard a user signs in, creates a plan, issues and suspends a licence, and the focus returns', async () => {
    const { stack, open, vendor } = world()
    const { at, licences } = await vendor()
    await using window = await open({ key: null, at: at('/plans') })
    const { page, dialog, heading } = window
    const { press, type, tabTo, isAt, isAtField, heard } = keyboardOf(window)
    await window.field('API key').waitFor()
    await press('Tab')
    await isAtField('key')
    await type(stack.apiKey)
    await press('Enter')
    await heading('Plans').waitFor()

    await tabTo('New plan')
    await press('Enter')
    await isAtField('name')
    await type('Pro')
    await press('Tab')
    await type('pro')
    await press('Enter')
    await dialog('New plan').waitFor({ state: 'hidden' })
    await isAt('New plan')
    await heard('Create: done')

    await eventually(
      async () => {
        await press('Shift+Tab')
        expect(await page.locator('nav a:focus', { hasText: 'Licences' }).count()).toBe(1)
      },
      { intervalMs: 5 },
    )
    await press('Enter')
    await heading('Licences').waitFor()
    await isAt('Licences')
    await tabTo('Issue licence')
    await press('Enter')
    await dialog('Issue licence').waitFor()
    await press('Escape')
    await dialog('Issue licence').waitFor({ state: 'hidden' })
    await isAt('Issue licence')
    await press('Enter')
    await isAtField('external_ref')
    await type('customer-1')
    await press('Enter')
    await page.locator('p:focus', { hasText: 'The licence of customer-1 is active' }).waitFor()
    await tabTo('Show the licence')
    await press('Enter')
    await heading('customer-1').waitFor()
    await isAt('customer-1')

    await tabTo('Suspend')
    await press('Enter')
    await page.getByRole('alertdialog').waitFor()
    await press('Escape')
    await page.getByRole('alertdialog').waitFor({ state: 'hidden' })
    await isAt('Suspend')
    await press('Enter')
    await page.getByRole('alertdialog').waitFor()
    await tabTo('Suspend')
    // The button is disabled until the dialog has read the licence's current state.
    await page.locator('button:focus:not([aria-disabled])').waitFor()
    await press('Enter')
    await window.button('Reactivate').waitFor()
    await heard('Suspend: done')
    // The button that opened the dialog is gone, so the heading has the focus.
    await isAt('customer-1')
    expect(await licences()).toMatchObject([{ status: 'suspended' }])
  })

  test('a secret that is shown once gets the focus, and closing it returns the focus to the button that created it', async () => {
    const { receiver, open, vendor } = world()
    const { at } = await vendor()
    await using window = await open({ at: at('/webhooks') })
    const { dialog } = window
    const { press, type, tabTo, isAt, isAtField } = keyboardOf(window)
    await window.heading('Webhooks').waitFor()
    await tabTo('Add endpoint')
    await press('Enter')
    await isAtField('url')
    await type(receiver.url('/keyboard'))
    await press('Enter')
    await dialog('Signing secret').waitFor()
    await tabTo('Done')
    await press('Escape')
    await tabTo('Done')
    await press('Enter')
    await dialog('Signing secret').waitFor({ state: 'hidden' })
    await isAt('Add endpoint')
  })
})
