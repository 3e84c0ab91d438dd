import { drawing, drawn } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { expectEveryLook, pageWidth } from './looks.ts'
import { portalTests, type Vendor, type World } from './world.ts'

const MAX_SCRIPT_BYTES = 180 * 1024

interface View {
  name: string
  at: string
  heading: string
  /** The application of the page. */
  appId: string
  /** The tables on the page, with or without rows. */
  tables: readonly string[]
  /** A button that opens an alert dialog, which is then checked. */
  asks?: string
}

portalTests('every page', (world) => {
  test(`no page violates WCAG 2.2 AA in light or dark, and none scrolls sideways at 360 px (${drawing})`, async () => {
    const views = drawn(await givenViews(world()), 10)
    await using window = await world().open({ bypassCSP: true, at: views[0]!.at })
    const { page } = window
    for (const view of views) {
      await show(page, view)
      expect(await page.locator('h1').count(), view.name).toBe(1)
      expect(await page.title()).toBe(`${await page.locator('h1').textContent()} · Licensing`)
      // Tables behind a dialog have no accessible role, so they are found by their attribute.
      for (const name of view.tables)
        expect(await page.locator(`table[aria-label="${name}"]`).count()).toBe(1)
      await expectEveryLook(page, view.name)
      if (view.asks !== undefined) await page.keyboard.press('Escape')
    }
    // The call that asks for the processor answers 404 if none is connected, and the browser reports that.
    expect(window.complaints.filter((text) => !text.includes('status of 404'))).toEqual([])
  })

  test('with the longest texts no page scrolls sideways, at any width', async () => {
    const { stack, vendor, open } = world()
    const one = await vendor('N'.repeat(200))
    const { id: planId } = await one.plan('P'.repeat(200))
    const licence = await one.issue(planId, 'W'.repeat(255))
    const called = await stack.api.post('/v1/activations', {
      key: null,
      body: {
        licence_key: licence.key,
        fingerprint: 'f'.repeat(128),
        host: `${'h'.repeat(63)}.${'h'.repeat(63)}.${'h'.repeat(63)}.example`,
        product_version: '9'.repeat(128),
      },
    })
    expect(called.status).toBe(201)
    await using window = await open({ at: one.at(`/licences/${licence.id}`) })
    const { page } = window
    await window.table('Activations').getByText('9'.repeat(128)).waitFor()
    for (const width of [360, 700, 1280]) {
      await page.setViewportSize({ width, height: 900 })
      expect(await page.evaluate<number>(pageWidth)).toBeLessThanOrEqual(width)
    }
    await page.setViewportSize({ width: 1280, height: 900 })
  })

  test('the sign-in form is accessible in light and dark mode and on a phone', async () => {
    await using window = await world().open({ key: null, bypassCSP: true })
    await window.field('API key').fill('lsk_wrong')
    await window.button('Sign in').click()
    await window.page.getByRole('alert').waitFor()
    await expectEveryLook(window.page, 'sign-in')
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
  await one.endpoint(receiver.url('/a-rather-long-path/for-all-pages/of-this-suite'))
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
  const deliveries = await eventually(async () => {
    const { body } = await stack.api.get<{ data: { id: string; endpoint_id: string }[] }>(
      `${one.app}/webhook-deliveries?status=delivered`,
    )
    expect(body.data).toHaveLength(4)
    return body.data
  })
  const [delivery] = deliveries
  const empty = await vendor('Empty')
  const view = (
    name: string,
    at: string,
    heading: string,
    more: Partial<View> & { of?: Vendor } = {},
  ): View => {
    const { of = one, tables = [], ...rest } = more
    return { name, at: of.at(at), heading, appId: of.appId, tables, ...rest }
  }
  const { external_ref: reference } = licence
  return [
    view('overview', '', 'Overview'),
    view('overview-new', '', 'Overview', { of: empty }),
    view('licences', '/licences', 'Licences'),
    view('licences-empty', '/licences', 'Licences', { of: empty, tables: ['Licences'] }),
    view('licences-search', '/licences?q=customer', 'Licences'),
    view('licences-issue', '/licences?open=issue', 'Licences'),
    view('licence', `/licences/${licence.id}`, reference, {
      tables: ['Entitlements', 'Activations', 'History', 'Deliveries'],
    }),
    view('licence-revoke', `/licences/${licence.id}`, reference, { asks: 'Revoke' }),
    view('licence-edit', `/licences/${licence.id}?open=edit`, reference),
    view('plans', '/plans', 'Plans'),
    view('plans-empty', '/plans', 'Plans', { of: empty, tables: ['Plans', 'Entitlements'] }),
    view('plans-new-entitlement', '/plans?open=new-entitlement', 'Plans'),
    view('plans-new-plan', '/plans?open=new-plan', 'Plans'),
    view('plan', `/plans/${planId}`, 'Professional'),
    view('webhooks', '/webhooks', 'Webhooks'),
    view('webhooks-empty', '/webhooks', 'Webhooks', { of: empty, tables: ['Endpoints', 'Deliveries'] }),
    view('webhooks-add', '/webhooks?open=add-endpoint', 'Webhooks'),
    view('delivery', `/webhooks/deliveries/${delivery!.id}`, 'licence.revoked'),
    view('endpoint', `/webhooks/endpoints/${delivery!.endpoint_id}`, receiver.url('/a-rather')),
    view(
      'endpoint-recover',
      `/webhooks/endpoints/${delivery!.endpoint_id}?open=recover`,
      receiver.url('/a-rather'),
    ),
    view('payments-empty', '/payments', 'Payments', {
      of: empty,
      tables: ['Payments', 'Refunds', 'Checkouts', 'Fees'],
    }),
    view('payments-cap', '/payments?open=cap', 'Payments'),
    view('import', '/import', 'Import'),
    view('settings', '/settings', 'Settings', { tables: ['API keys', 'Applications'] }),
    view('settings-new-key', '/settings?open=new-key', 'Settings'),
    view('settings-new-application', '/settings?open=new-application', 'Settings'),
    view('not-found', '/nowhere', 'Not found'),
  ]
}

/** Opens a page without reloading the portal, because the router follows the browser's history. */
async function show(page: Page, { at, heading, appId, asks }: View): Promise<void> {
  await page.evaluate(`history.pushState(null, '', ${JSON.stringify(`/portal${at}`)})`)
  await page.evaluate("dispatchEvent(new PopStateEvent('popstate'))")
  await page.locator('h1', { hasText: heading }).waitFor()
  await eventually(async () =>
    expect(await page.getByLabel('Application', { exact: true }).inputValue()).toBe(appId),
  )
  if (at.includes('open=')) await page.getByRole('dialog').waitFor()
  await eventually(async () => expect(await page.getByText('Loading…').count()).toBe(0))
  if (asks === undefined) return
  await page.getByRole('button', { name: asks, exact: true }).click()
  await page.getByRole('alertdialog').waitFor()
}
