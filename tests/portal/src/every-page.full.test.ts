import { drawing, drawn } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { expectAccessible, pageWidth } from './looks.ts'
import { portalTests, type Vendor, type World } from './world.ts'

const MAX_SCRIPT_BYTES = 180 * 1024

interface View {
  at: string
  heading: string
  /** The application of the page. */
  appId: string
  /** The tables on the page, with or without rows. */
  tables: readonly string[]
  /** A button that opens an alert dialog, which is then checked. */
  asks?: string
}

interface Options extends Partial<View> {
  of?: Vendor
}

portalTests('every page', (world) => {
  test(`no page violates WCAG 2.2 AA in light or dark, and none scrolls sideways at 360 px (${drawing})`, async () => {
    const views = drawn(await givenViews(world()), 5)
    await using window = await world().open({ at: views[0]!.at })
    const { page } = window
    for (const view of views) {
      await show(page, view)
      expect(await page.locator('h1').count(), view.at).toBe(1)
      expect(await page.title()).toBe(`${await page.locator('h1').textContent()} · Licensing`)
      // Tables behind a dialog have no accessible role, so they are found by their attribute.
      for (const name of view.tables)
        expect(await page.locator(`table[aria-label="${name}"]`).count()).toBe(1)
      await expectAccessible(page, view.at)
      if (view.asks !== undefined) await page.keyboard.press('Escape')
    }
    // The call that asks for the processor answers 404 if none is connected, and the browser reports that.
    expect(window.complaints.filter((text) => !text.includes('status of 404'))).toEqual([])
  })

  test('with the longest texts no page scrolls sideways, at any width', async () => {
    const { vendor, open } = world()
    const one = await vendor('N'.repeat(200))
    const { id: planId } = await one.plan('P'.repeat(200))
    const licence = await one.issue(planId, 'W'.repeat(255))
    await one.activate(licence, `${'h'.repeat(63)}.${'h'.repeat(63)}.${'h'.repeat(63)}.example`, {
      fingerprint: 'f'.repeat(128),
      product_version: '9'.repeat(128),
    })
    await using window = await open({ at: one.at(`/licences/${licence.id}`) })
    const { page } = window
    await window.table('Activations').getByText('9'.repeat(128)).waitFor()
    for (const width of [360, 700, 1280]) {
      await page.setViewportSize({ width, height: 900 })
      expect(await page.evaluate<number>(pageWidth)).toBeLessThanOrEqual(width)
    }
  })

  test('the first load is at most 180 KiB of compressed JavaScript, all of it from the gateway', async () => {
    const { stack, open } = world()
    await using window = await open()
    await window.region('Alerts').waitFor()
    await window.page.reload({ waitUntil: 'networkidle' })
    const loaded = await window.page.evaluate<{ name: string; encodedBodySize: number }[]>(
      "performance.getEntriesByType('resource').map((entry) => entry.toJSON())",
    )
    const scripts = loaded.filter(({ name }) => name.endsWith('.js'))
    expect(scripts.length).toBeGreaterThan(0)
    const bytes = scripts.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)
    expect(bytes).toBeLessThanOrEqual(MAX_SCRIPT_BYTES)
    expect(loaded.filter(({ name }) => !name.startsWith(`${stack.gatewayUrl}/`))).toEqual([])
    expect(window.complaints).toEqual([])
  })
})

/** Every page, with data, and every dialog. */
async function givenViews({ receiver, stack, vendor }: World): Promise<View[]> {
  const one = await vendor('Studio with a rather long name for an application')
  await one.define('max_projects', 'limit', '3', 'Projects')
  await one.define('export_pdf', 'feature', 'false', 'PDF export')
  const { id: planId } = await one.plan('Professional', [{ key: 'max_projects', value: '10' }])
  await one.plan('Team')
  const { id: endpointId } = await one.endpoint(receiver.url('/a-rather-long-path/of-this-suite'))
  const licence = await one.issue(planId, 'a-customer-with-a-rather-long-reference@example.com', {
    restrictions: { domains: ['example.com', '*.example.org'], max_activations: 3 },
  })
  await one.issue(planId, 'customer-2')
  await one.activate(licence, 'workstation.example.org')
  const other = await one.issue(planId, 'customer-3')
  for (const verb of ['suspend', 'reactivate', 'suspend'])
    await stack.api.post(`/v1/licences/${licence.id}/${verb}`)
  await stack.api.post(`/v1/licences/${other.id}/revoke`)
  await stack.api.patch(`${one.app}/plans/${planId}`, {
    body: { entitlements: [{ key: 'max_projects', value: '20' }] },
  })
  const [delivery] = await one.attempted(4)
  const empty = await vendor('Empty')
  const view = (at: string, heading: string, { of = one, tables = [], ...more }: Options = {}): View => ({
    at: of.at(at),
    heading,
    appId: of.appId,
    tables,
    ...more,
  })
  const { external_ref: reference } = licence
  const [page, endpoint] = [`/licences/${licence.id}`, `/webhooks/endpoints/${endpointId}`]
  return [
    view('', 'Overview'),
    view('', 'Overview', { of: empty }),
    view('/licences', 'Licences'),
    view('/licences', 'Licences', { of: empty, tables: ['Licences'] }),
    view('/licences?q=customer', 'Licences'),
    view('/licences?open=issue', 'Licences'),
    view(page, reference, { tables: ['Entitlements', 'Activations', 'History', 'Deliveries'] }),
    view(page, reference, { asks: 'Revoke' }),
    view(`${page}?open=edit`, reference),
    view(`${page}?open=customer-link`, reference),
    view(page, reference, { asks: 'End customer sessions' }),
    view('/plans', 'Plans'),
    view('/plans', 'Plans', { of: empty, tables: ['Plans', 'Entitlements'] }),
    view('/plans?open=new-entitlement', 'Plans'),
    view('/plans?open=new-plan', 'Plans'),
    view(`/plans/${planId}`, 'Professional'),
    view('/webhooks', 'Webhooks'),
    view('/webhooks', 'Webhooks', { of: empty, tables: ['Endpoints', 'Deliveries'] }),
    view('/webhooks?open=add-endpoint', 'Webhooks'),
    view(`/webhooks/deliveries/${delivery!.id}`, 'licence.revoked'),
    view(endpoint, receiver.url('/a-rather')),
    view(`${endpoint}?open=edit`, receiver.url('/a-rather')),
    view(`${endpoint}?open=recover`, receiver.url('/a-rather')),
    view('/payments', 'Payments', { of: empty, tables: ['Payments', 'Refunds', 'Checkouts', 'Fees'] }),
    view('/payments?open=cap', 'Payments'),
    view('/import', 'Import'),
    view('/settings', 'Settings', { tables: ['API keys', 'Members', 'Applications', 'Audit log'] }),
    view('/settings?open=new-key', 'Settings'),
    view('/settings?open=new-member', 'Settings'),
    view('/settings?open=new-application', 'Settings'),
    view('/nowhere', 'Not found'),
  ]
}

/** Opens a page without reloading the portal, because the router follows the browser's history. */
async function show(page: Page, { at, heading, appId, asks }: View): Promise<void> {
  await page.evaluate(`history.pushState(null, '', ${JSON.stringify(`/portal${at}`)})`)
  await page.evaluate("dispatchEvent(new PopStateEvent('popstate'))")
  await page.locator('h1', { hasText: heading }).waitFor()
  await eventually(async () =>
    expect(await page.locator('header').getByLabel('Application').inputValue()).toBe(appId),
  )
  if (at.includes('open=')) await page.getByRole('dialog').waitFor()
  await eventually(async () => expect(await page.getByText('Loading…').count()).toBe(0))
  if (asks === undefined) return
  await page.getByRole('button', { name: asks, exact: true }).click()
  await page.getByRole('alertdialog').waitFor()
}
