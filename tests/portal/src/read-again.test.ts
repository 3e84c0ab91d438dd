import { drawing, drawn } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import type { Page, Route } from 'playwright-core'
import { expect, test } from 'vitest'
import { expectEveryLook } from './looks.ts'
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

const cases = Object.keys(failures).flatMap((failure) =>
  (['with rows', 'without rows'] as const).map((rows) => ({ failure, rows })),
)

const calls = '**/v1/**'

/** Repeats the event of returning to the window, after which the page reads its data again, until the expectation holds. */
async function untilReadAgain(page: Page, expected: () => Promise<void>): Promise<void> {
  await eventually(async () => {
    await page.evaluate("dispatchEvent(new Event('visibilitychange'))")
    await expected()
  })
}

const notCurrent = 'This could not be read again.'

portalTests('read again', (world) => {
  test.each(drawn(cases, 4))(
    `a list that cannot be read again says so and shows the age of its rows, and can be read again: $failure, $rows (${drawing})`,
    async ({ failure, rows }) => {
      const { open, vendor } = world()
      const { at, plan, issue } = await vendor()
      if (rows === 'with rows') await issue((await plan('Pro')).id, 'customer-1')
      await using window = await open({ at: at('/licences') })
      const { page } = window
      const row = page.getByRole('link', { name: 'customer-1' })
      const sentence = page.getByText('There are no licences yet.')
      const shown = rows === 'with rows' ? row : sentence
      await shown.waitFor()
      await page.route(calls, failures[failure]!)
      const alert = page.getByRole('main').getByRole('alert')
      await untilReadAgain(page, async () => expect(await alert.count()).toBe(1))
      expect(await alert.textContent()).toContain(notCurrent)
      const readAt = await alert.locator('time').getAttribute('datetime')
      expect(Math.abs(Date.now() - Date.parse(readAt!))).toBeLessThan(300_000)
      expect(await row.count()).toBe(rows === 'with rows' ? 1 : 0)
      expect(await sentence.count()).toBe(0)
      if (rows === 'without rows') await page.getByText('There were no rows then.').waitFor()

      await page.unroute(calls)
      // The click is dispatched directly, because the page may read again by itself and remove the alert.
      await alert.getByRole('button', { name: 'Try again' }).dispatchEvent('click')
      await alert.waitFor({ state: 'detached' })
      await shown.waitFor()
    },
  )

  test('every list and every page shows which data it could not read again', async () => {
    const { stack, open, vendor, receiver } = world()
    const { app, at, plan, issue, activate, endpoint } = await vendor()
    const { id: planId } = await plan('Pro')
    const licence = await issue(planId, 'customer-1')
    await activate(licence, 'workstation.example.org')
    const { id: endpointId } = await endpoint(receiver.url('/read-again'))
    await stack.api.post(`/v1/licences/${licence.id}/suspend`)
    const deliveryId = await eventually(async () => {
      const { body } = await stack.api.get<{ data: { id: string }[] }>(`${app}/webhook-deliveries`)
      expect(body.data).toHaveLength(1)
      return body.data[0]!.id
    })
    for (const [address, parts] of [
      ['', 2],
      ['/licences', 1],
      ['/licences?q=customer', 1],
      [`/licences/${licence.id}`, 6],
      ['/plans', 2],
      [`/plans/${planId}`, 1],
      ['/webhooks', 2],
      [`/webhooks/endpoints/${endpointId}`, 2],
      [`/webhooks/deliveries/${deliveryId}`, 2],
      ['/payments', 5],
      // Applications are read again only after a minute or after a change.
      ['/settings', 3],
    ] as const) {
      await using window = await open({ at: at(address), bypassCSP: true })
      const { page } = window
      await page.locator('h1').waitFor()
      await page.getByRole('main').locator('table, [aria-label="Alerts"], dl').first().waitFor()
      await eventually(async () => expect(await page.getByText('Loading…').count()).toBe(0))
      await page.waitForLoadState('networkidle')
      await page.route(calls, failures['503']!)
      const alerts = page.getByRole('main').getByRole('alert')
      const notices = alerts.filter({ hasText: notCurrent })
      await untilReadAgain(page, async () => expect(await notices.count(), address).toBe(parts))
      expect(await alerts.count(), address).toBe(parts)
      if (['', '/payments', '/licences'].includes(address)) {
        await expectEveryLook(page, `not-read-again-${address.slice(1) || 'overview'}`)
      }
      await page.unroute(calls)
      await eventually(async () => {
        await page.evaluate(
          "document.querySelectorAll('main [role=alert] button').forEach((button) => button.click())",
        )
        expect(await alerts.count(), address).toBe(0)
      })
    }
  })

  test('a list that was never read says so, and not that it is empty or loading', async () => {
    const { open, vendor } = world()
    const { at } = await vendor()
    await using window = await open({ at: at('/settings') })
    const { page } = window
    await window.table('Applications').getByRole('cell').first().waitFor()
    await page.route('**/v1/apps/*/*', failures['503']!)
    await window.goTo('Plans')
    await window.region('Entitlements').getByRole('alert').waitFor()
    await eventually(async () => expect(await page.getByText('The rows could not be read.').count()).toBe(2))
    expect(await page.getByText('Loading…').count()).toBe(0)
    expect(await page.getByText('There are no').count()).toBe(0)
    expect(await page.getByText(notCurrent).count()).toBe(0)
  })

  test('if the applications cannot be read, a page says why it waits', async () => {
    const { stack, open } = world()
    await using window = await open({ at: '/settings' })
    const { page } = window
    await window.table('Applications').getByRole('cell').first().waitFor()
    await page.route('**/v1/apps?*', failures['503']!)
    await page.goto(`${stack.gatewayUrl}/portal/plans`)
    await page.getByRole('main').getByRole('alert').getByRole('button', { name: 'Try again' }).waitFor()
    await page.unroute('**/v1/apps?*')
    await page.getByRole('button', { name: 'Try again' }).click()
    await eventually(async () => expect(await page.getByText('Loading…').count()).toBe(0))
    expect(await page.getByRole('main').getByRole('alert').count()).toBe(0)
  })
})
