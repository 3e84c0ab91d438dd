import { eventually } from '@licensing/test-support/poll'
import { awaitTurn } from '@licensing/test-support/turn-of-day'
import { expect, test } from 'vitest'
import { expectAccessible } from './looks.ts'
import { portalTests } from './world.ts'

const figures = ['Active licences', 'New licences', 'Revenue', 'Webhook deliveries']
const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString()

portalTests('overview', (world) => {
  test('the overview has four figures, each also as a table, and the alerts', async () => {
    await awaitTurn('day')
    const { stack, receiver, open, vendor } = world()
    const { app, appId, at, plan, issue, sell, endpoint } = await vendor()
    const { id: planId } = await plan()
    const licence = await issue(planId, 'customer-1')
    await issue(planId, 'customer-2')
    await sell(planId, 'buyer-1')
    await sell(planId, 'buyer-2', { amount: 1900 })
    await sell(planId, 'buyer-3', { amount: 1500, currency: 'jpy' })
    receiver.answerWith(({ path }) => (path === '/failing' ? { status: 500 } : {}))
    const { id: endpointId } = await endpoint(
      receiver.url('/failing'),
      'licence.suspended,licence.reactivated',
    )
    for (let i = 0; i < 3; i += 1) {
      await stack.api.post(`/v1/licences/${licence.id}/suspend`)
      await stack.api.post(`/v1/licences/${licence.id}/reactivate`)
    }
    await eventually(async () => {
      const { body: alerts } = await stack.api.get<{ data: { endpoint_id: string }[] }>('/v1/alerts')
      expect(alerts.data.some((alert) => alert.endpoint_id === endpointId)).toBe(true)
      const today = new Date().toISOString().slice(0, 10)
      const { body: metrics } = await stack.api.get<{ points: { values: { active: number } }[] }>(
        `${app}/metrics?metric=licences&from=${today}&to=${today}&step=day`,
      )
      expect(metrics.points[0]?.values.active).toBe(5)
    })

    await using window = await open({ at: at('') })
    const { page, region, button, table } = window
    const today = async (name: string, expected: unknown) => {
      await button('Show as table', region(name)).click()
      const cells = table(name).getByRole('row').nth(1).getByRole('cell')
      await eventually(async () => expect(await cells.allTextContents()).toEqual(expected))
    }
    await eventually(async () => expect(await region('Active licences').textContent()).toContain('5'))
    const day = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'UTC' }).format(new Date())
    await today('Active licences', [day, '5'])
    await today('New licences', [day, '5', '2', '0', '3'])
    await eventually(async () => expect(await region('Revenue').textContent()).toContain('¥1,500'))
    await today('Revenue', [day, '€68.00', '€68.00', '¥1,500', '¥1,500'])
    await today('Webhook deliveries', expect.arrayContaining([day, '0']))
    expect(await table('Webhook deliveries').getByRole('row').count()).toBe(31)
    const alerts = page.getByRole('list', { name: 'Alerts' })
    const alert = alerts.getByRole('listitem').filter({ hasText: endpointId })
    await alert.getByText('Endpoint failing').waitFor()
    await alert.getByRole('link').click()
    await window.heading(receiver.url('/failing')).waitFor()
    expect(page.url()).toContain(appId)
    expect(window.complaints).toEqual([])
  })

  test('the overview shows 7, 30 or 90 days, kept in the address, with net and gross revenue and a scale', async () => {
    await awaitTurn('day')
    const { open, vendor } = world()
    const { at, plan, sell } = await vendor()
    const { id: planId } = await plan('Pro')
    for (const days of [1, 20, 80]) await sell(planId, `customer-${days}`, { occurred_at: daysAgo(days) })
    await using window = await open({ at: at('') })
    const { page, region, button, table } = window
    const revenue = region('Revenue')
    const days = async (period: string, rows: number, total: string) => {
      await button(period).click()
      await revenue.getByText(`${total} gross`).waitFor()
      await revenue.getByText(`${total} net`).waitFor()
      await button('Show as table', revenue).click()
      await eventually(async () => expect(await table('Revenue').getByRole('row').count()).toBe(rows + 1))
      await button('Show as table', revenue).click()
    }
    await revenue.getByText('€98.00 gross').waitFor()
    // The scale has round numbers and starts at zero.
    for (const mark of ['€0.00', '€20.00', '€40.00', '€60.00'])
      await revenue.getByText(mark, { exact: true }).waitFor({ state: 'attached' })
    await expectAccessible(page, 'overview-30')
    await days('7 days', 7, '€49.00')
    await days('90 days', 90, '€147.00')
    expect(new URL(page.url()).searchParams.get('days')).toBe('90')
    await page.reload()
    await revenue.getByText('in the last 90 days').waitFor()
    expect(await button('90 days').getAttribute('aria-pressed')).toBe('true')
    await expectAccessible(page, 'overview-90')
  })

  test('loading figures show no values, and nothing moves when the values arrive', async () => {
    const { open, vendor } = world()
    const { at } = await vendor()
    await using window = await open({ at: at('/settings') })
    const { page, region } = window
    const held = Promise.withResolvers<void>()
    await page.route('**/metrics?*', async (route) => {
      await held.promise
      return route.continue()
    })
    await window.goTo('Overview')
    const places = async () => {
      const all = []
      for (const width of [360, 1280]) {
        await page.setViewportSize({ width, height: 900 })
        for (const name of ['Getting started', ...figures, 'Alerts']) {
          const { x, y, width } = (await region(name).boundingBox())!
          all.push({ x, y, width })
        }
      }
      return all
    }
    const standing = (isBusy: boolean) => page.locator(`main figure[aria-busy=${isBusy}]`)
    await eventually(async () => expect(await standing(true).count()).toBe(figures.length))
    for (const name of figures) {
      expect(await region(name).textContent()).toBe(`${name}Show as tableLoading…\u00a0\u00a0\u00a0`)
    }
    const before = await places()
    held.resolve()
    await eventually(async () => expect(await standing(false).count()).toBe(figures.length))
    await region('Revenue').getByText('no payments in the last 30 days').waitFor()
    expect(await places()).toEqual(before)
  })

  test('figures that cannot be read say so, and can be read again', async () => {
    const { open, vendor } = world()
    const { at } = await vendor()
    await using window = await open({ at: at('/settings') })
    await window.page.route('**/metrics?metric=payments*', (route) => route.abort('connectionreset'))
    await window.goTo('Overview')
    await window.region('Revenue').getByText('no data').waitFor()
    await window.region('New licences').getByText('in the last 30 days').waitFor()
    await window.page.unroute('**/metrics?metric=payments*')
    await window.button('Try again').click()
    await window.region('Revenue').getByText('no payments in the last 30 days').waitFor()
  })
})
