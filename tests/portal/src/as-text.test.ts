import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { portalTests } from './world.ts'

const markup = (where: string) =>
  `<img src="/portal/none" alt="${where}" onerror="document.title='changed'"><script>document.title='changed'</script>`

portalTests('what others chose', (world) => {
  test('values that customers and receivers choose are shown as text, and never become elements', async () => {
    const { stack, receiver, open, vendor } = world()
    const { at, plan, issue, activate, endpoint, attempted } = await vendor(
      `Studio ${markup('application')}`.slice(0, 100),
    )
    receiver.answerWith(() => ({ status: 500, body: markup('answer') }))
    const hooks = await endpoint(receiver.url('/markup'), 'licence.suspended')
    const made = await issue((await plan(markup('plan').slice(0, 100))).id, markup('customer'))
    await activate(made, 'one.example.com', {
      fingerprint: markup('machine'),
      product_version: '<i>4.2.0</i>',
    })
    await stack.api.post(`/v1/licences/${made.id}/suspend`)
    const [delivery] = await attempted(1)
    await using window = await open({ at: at('/licences') })
    const { page } = window
    const shown = {
      '/licences': 'customer',
      [`/licences?q=${encodeURIComponent('<img')}`]: 'customer',
      [`/licences/${made.id}`]: 'customer',
      '/plans': 'plan',
      [`/webhooks/deliveries/${delivery!.id}`]: 'answer',
      [`/webhooks/endpoints/${hooks.id}`]: 'markup',
    }
    for (const [path, text] of Object.entries(shown)) {
      await page.goto(`${stack.gatewayUrl}/portal${at(path)}`)
      await eventually(async () => expect(await page.locator('main').textContent()).toContain(text))
      expect(await page.locator('img[src="/portal/none"], main script, main i').count(), path).toBe(0)
      expect(await page.title(), path).not.toBe('changed')
    }
    expect(window.complaints).toEqual([])
  })

  test('while a list is read again, no row moves and the page does not scroll', async () => {
    const { stack, receiver, open, vendor } = world()
    const { at, plan, issue, endpoint, attempted } = await vendor()
    receiver.answerWith(() => ({ status: 500 }))
    await endpoint(receiver.url('/still'), 'licence.suspended')
    const { id: planId } = await plan()
    await Promise.all(
      Array.from({ length: 12 }, async (_, n) => {
        const { id } = await issue(planId, `customer-${n}`)
        await stack.api.post(`/v1/licences/${id}/suspend`)
      }),
    )
    await attempted(12)
    await using window = await open({ at: at('/webhooks'), clock: true })
    const { page, table } = window
    await page.setViewportSize({ width: 1280, height: 400 })
    const rows = table('Deliveries').getByRole('row')
    await eventually(async () => expect(await rows.count()).toBe(13))
    const last = rows.last()
    await last.scrollIntoViewIfNeeded()
    const where = async () => [await page.evaluate<number>('scrollY'), await last.boundingBox()]
    const before = await where()
    expect(before[0]).toBeGreaterThan(0)
    for (let n = 0; n < 3; n += 1) {
      const read = page.waitForResponse((response) => response.url().includes('/webhook-deliveries'))
      await page.clock.fastForward(31_000)
      await read
    }
    expect(await where()).toEqual(before)
    expect(await rows.count()).toBe(13)
  })
})
