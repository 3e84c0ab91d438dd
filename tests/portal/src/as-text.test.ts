import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { portalTests } from './world.ts'

const markup = (where: string) =>
  `<img src="/portal/none" alt="${where}" onerror="document.title='changed'"><script>document.title='changed'</script>`

portalTests('what others chose', (world) => {
  test('values that customers and receivers choose are shown as text, and never become elements', async () => {
    const { stack, receiver, open, vendor } = world()
    const { app, at, plan, issue, endpoint } = await vendor(`Studio ${markup('application')}`.slice(0, 100))
    receiver.answerWith(() => ({ status: 500, body: markup('answer') }))
    const hooks = await endpoint(receiver.url('/markup'), 'licence.suspended')
    const made = await issue((await plan(markup('plan').slice(0, 100))).id, markup('customer'))
    const activated = await stack.api.post('/v1/activations', {
      key: null,
      body: {
        licence_key: made.key,
        fingerprint: markup('machine'),
        host: 'one.example.com',
        product_version: '<i>4.2.0</i>',
      },
    })
    expect(activated.status).toBe(201)
    await stack.api.post(`/v1/licences/${made.id}/suspend`)
    const attempted = await eventually(async () => {
      const { body } = await stack.api.get<{ data: { id: string; attempt_count: number }[] }>(
        `${app}/webhook-deliveries`,
      )
      expect(body.data).toMatchObject([{ attempt_count: 1 }])
      return body.data[0]!
    })
    await using window = await open({ at: at('/licences') })
    const { page } = window
    const shown = {
      '/licences': 'customer',
      [`/licences?q=${encodeURIComponent('<img')}`]: 'customer',
      [`/licences/${made.id}`]: 'customer',
      '/plans': 'plan',
      [`/webhooks/deliveries/${attempted.id}`]: 'answer',
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
    const { app, at, plan, issue, endpoint } = await vendor()
    receiver.answerWith(() => ({ status: 500 }))
    await endpoint(receiver.url('/still'), 'licence.suspended')
    const { id: planId } = await plan()
    for (let n = 0; n < 30; n++) {
      const { id } = await issue(planId, `customer-${n}`)
      await stack.api.post(`/v1/licences/${id}/suspend`)
    }
    await eventually(async () => {
      const { body } = await stack.api.get<{ data: { attempt_count: number }[] }>(`${app}/webhook-deliveries`)
      expect(body.data.map((delivery) => delivery.attempt_count)).toEqual(Array(30).fill(1))
    })
    await using window = await open({ at: at('/webhooks') })
    const { page, table } = window
    const rows = table('Deliveries').getByRole('row')
    await eventually(async () => expect(await rows.count()).toBe(31))
    const last = rows.last()
    await last.scrollIntoViewIfNeeded()
    const where = async () => [await page.evaluate<number>('scrollY'), await last.boundingBox()]
    let reads = 0
    page.on('response', (response) => {
      if (response.url().includes('/webhook-deliveries')) reads += 1
    })
    await eventually(() => expect(reads).toBeGreaterThan(0))
    const before = await where()
    const seen = reads
    await eventually(() => expect(reads).toBeGreaterThan(seen + 1))
    expect(await where()).toEqual(before)
    expect(await rows.count()).toBe(31)
  })
})
