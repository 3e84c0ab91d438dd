import { eventually } from '@licensing/test-support/poll'
import { awaitTurn } from '@licensing/test-support/turn-of-day'
import { expect, test } from 'vitest'
import { portalTests } from './world.ts'

portalTests('overview', (world) => {
  test('the overview has four figures, each also as a table, and the alerts', async () => {
    await awaitTurn('day')
    const { stack, receiver, open, vendor } = world()
    const { app, appId, at, plan, issue, endpoint } = await vendor()
    const { id: planId } = await plan()
    const licence = await issue(planId, 'customer-1')
    await issue(planId, 'customer-2')
    for (const [amount, currency] of [
      [4900, 'eur'],
      [1900, 'eur'],
      [1500, 'jpy'],
    ]) {
      const body = {
        sale_id: `sale-${amount}`,
        external_ref: `buyer-${amount}`,
        plan_id: planId,
        amount,
        currency,
        occurred_at: new Date().toISOString(),
      }
      expect((await stack.api.post(`${app}/sale-events`, { body })).status).toBe(201)
    }
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
      const { body } = await stack.api.get<{ data: { endpoint_id: string }[] }>('/v1/alerts')
      expect(body.data.some((alert) => alert.endpoint_id === endpointId)).toBe(true)
    })
    await eventually(async () => {
      const today = new Date().toISOString().slice(0, 10)
      const { body } = await stack.api.get<{ points: { values: { active: number } }[] }>(
        `${app}/metrics?metric=licences&from=${today}&to=${today}&step=day`,
      )
      expect(body.points[0]?.values.active).toBe(5)
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
    const figures = ['Active licences', 'New licences', 'Revenue', 'Webhook deliveries']
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
