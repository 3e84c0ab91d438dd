import { drawing, drawn, fullTest } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import type { Page, Route } from 'playwright-core'
import { expect, test } from 'vitest'
import { expectAccessible } from './looks.ts'
import { portalTests } from './world.ts'

const problem = (status: number, code: string) => (route: Route) =>
  route.fulfill({
    status,
    headers: { 'retry-after': '1' },
    contentType: 'application/problem+json',
    body: JSON.stringify({ code, status, detail: 'it cannot be read now' }),
  })

const failures: Readonly<Record<string, (route: Route) => Promise<void>>> = {
  '429': problem(429, 'rate_limited'),
  '500': problem(500, 'internal'),
  '503': problem(503, 'unavailable'),
  'no network': (route) => route.abort('internetdisconnected'),
}

const cases = Object.keys(failures).flatMap((failure) => [
  { failure, customers: 1 },
  { failure, customers: 0 },
])

const calls = '**/v1/**'
const notCurrent = 'This could not be read again.'

/** Visible data is read again every 30 seconds. */
const readAgain = (page: Page) => page.clock.fastForward(31_000)

portalTests('read again', (world) => {
  test.each(drawn(cases, 2))(
    `a list that cannot be read again says so and shows the age of its rows, and can be read again: $failure, $customers rows (${drawing})`,
    async ({ failure, customers }) => {
      const { open, vendor } = world()
      const { at, plan, issue } = await vendor()
      const { id: planId } = await plan('Pro')
      if (customers === 1) await issue(planId, 'customer-1')
      await using window = await open({ at: at('/licences'), clock: true })
      const { page } = window
      const row = page.getByRole('link', { name: 'customer-1' })
      const sentence = page.getByText('There are no licences yet.')
      await (customers === 1 ? row : sentence).waitFor()
      await page.route(calls, failures[failure]!)
      await readAgain(page)
      const alert = page.getByRole('main').getByRole('alert')
      await alert.getByText(notCurrent).waitFor()
      const readAt = await alert.locator('time').getAttribute('datetime')
      expect(Math.abs(Date.now() - Date.parse(readAt!))).toBeLessThan(300_000)
      expect(await row.count()).toBe(customers)
      expect(await sentence.count()).toBe(0)
      if (customers === 0) await page.getByText('There were no rows then.').waitFor()

      await page.unroute(calls)
      await issue(planId, 'customer-2')
      // The click is dispatched directly, because the page may read again by itself and remove the alert.
      await window.button('Try again', alert).dispatchEvent('click')
      await alert.waitFor({ state: 'detached' })
      await page.getByRole('link', { name: 'customer-2' }).waitFor()
      await issue(planId, 'customer-3')
      await readAgain(page)
      await page.getByRole('link', { name: 'customer-3' }).waitFor()
    },
  )

  fullTest(
    'every list and every page is read again regularly, and shows which data it could not read again',
    async () => {
      const { stack, open, vendor, receiver } = world()
      const { at, plan, issue, activate, endpoint, attempted } = await vendor()
      const { id: planId } = await plan('Pro')
      const licence = await issue(planId, 'customer-1')
      await activate(licence, 'workstation.example.org')
      const { id: endpointId } = await endpoint(receiver.url('/read-again'))
      await stack.api.post(`/v1/licences/${licence.id}/suspend`)
      const [delivery] = await attempted(1)
      await using window = await open({ clock: true })
      const { page } = window
      for (const [address, parts] of [
        ['', 2],
        ['/licences', 1],
        ['/licences?q=customer', 1],
        [`/licences/${licence.id}`, 6],
        ['/plans', 2],
        [`/plans/${planId}`, 1],
        ['/webhooks', 2],
        [`/webhooks/endpoints/${endpointId}`, 2],
        [`/webhooks/deliveries/${delivery!.id}`, 2],
        ['/payments', 5],
        ['/settings', 7],
      ] as const) {
        await page.goto(`${stack.gatewayUrl}/portal${at(address)}`)
        await page.getByRole('main').locator('table, [aria-label="Alerts"], dl').first().waitFor()
        await eventually(async () => expect(await page.getByText('Loading…').count()).toBe(0))
        await page.waitForLoadState('networkidle')
        await page.route(calls, failures['503']!)
        await readAgain(page)
        const alerts = page.getByRole('main').getByRole('alert')
        const notices = alerts.filter({ hasText: notCurrent })
        await eventually(async () => expect(await notices.count(), address).toBe(parts))
        expect(await alerts.count(), address).toBe(parts)
        const ages = page.getByRole('main').getByText(/read \d+ (second|minute)s? ago/)
        if (address === '') {
          await eventually(async () => expect(await ages.count()).toBe(4))
          await alerts
            .getByText(/What is shown is \d+ (second|minute)s? old/)
            .first()
            .waitFor()
        }
        if (['', '/payments', '/licences'].includes(address)) {
          await expectAccessible(page, `not-read-again-${address.slice(1) || 'overview'}`)
        }
        await page.unroute(calls)
        await readAgain(page)
        await eventually(async () =>
          expect([await alerts.count(), await ages.count()], address).toEqual([0, 0]),
        )
      }
    },
  )

  test('a list that was never read says so, and not that it is empty or loading; a page says why it waits', async () => {
    const { stack, open, vendor } = world()
    const { at } = await vendor()
    await using window = await open({ at: at('/settings') })
    const { page } = window
    await window.table('Applications').getByRole('cell').first().waitFor()
    await page.route('**/v1/apps/*/*', failures['503']!)
    await window.goTo('Plans')
    await window.region('Entitlements').getByRole('alert').waitFor()
    await eventually(async () => expect(await page.getByText('The rows could not be read.').count()).toBe(2))
    for (const text of ['Loading…', 'There are no', notCurrent]) {
      expect(await page.getByText(text).count(), text).toBe(0)
    }
    await page.route('**/v1/apps?*', failures['503']!)
    await page.goto(`${stack.gatewayUrl}/portal/plans`)
    const again = page.getByRole('main').getByRole('alert').getByRole('button', { name: 'Try again' })
    await again.waitFor()
    await page.unrouteAll()
    await again.click()
    await again.waitFor({ state: 'detached' })
    await eventually(async () => expect(await page.getByText('Loading…').count()).toBe(0))
  })
})
