import { eventually } from '@licensing/test-support/poll'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { expectEveryLook, pageWidth } from './looks.ts'
import type { Window } from './window.ts'
import { portalTests } from './world.ts'

const h1 = (page: Page) => page.locator('main h1')

portalTests('the guides', (world) => {
  const openGuide = async (path: string, bypassCSP = false): Promise<Window> => {
    const window = await world().open({ key: null, bypassCSP })
    window.complaints.length = 0
    await window.page.goto(`${world().stack.gatewayUrl}/docs/${path}`, { waitUntil: 'networkidle' })
    return window
  }

  test('sidebar, contents, next page and back work without a request to another host', async () => {
    await using window = await openGuide('guides/quickstart')
    const { page, complaints } = window
    const hosts = new Set<string>()
    page.on('request', (request) => hosts.add(new URL(request.url()).origin))
    const sidebar = page.locator('.VPSidebar')
    await sidebar.getByRole('link', { name: 'Webhooks', exact: true }).click()
    await page.waitForURL('**/docs/guides/webhooks')
    // The address changes before the page.
    await h1(page).filter({ hasText: 'Webhooks' }).waitFor()
    expect(await sidebar.locator('a').count()).toBeGreaterThan(18)
    for (const name of ['Runbook', 'Scaling', 'Security']) {
      expect(await sidebar.getByRole('link', { name, exact: true }).count()).toBe(1)
    }
    await page.locator('.VPDocAsideOutline').getByRole('link', { name: 'Retry schedule' }).click()
    await page.waitForURL('**/docs/guides/webhooks#retry-schedule')
    await eventually(async () => expect(await page.evaluate<number>('scrollY')).toBeGreaterThan(1_000))
    await page.locator('.pager-link.next').click()
    await page.waitForURL('**/docs/guides/events')
    await h1(page).filter({ hasText: 'Events' }).waitFor()
    await page.locator('.pager-link.prev').click()
    await page.waitForURL('**/docs/guides/webhooks')
    await page.locator('.VPNavBar').getByRole('link', { name: 'API reference' }).click()
    await page.locator('.swagger-ui .info').waitFor()
    expect([...hosts]).toEqual([world().stack.gatewayUrl])
    expect(complaints).toEqual([])
  })

  test('the search finds a word in all guides and opens the section', async () => {
    await using window = await openGuide('guides/quickstart')
    const { page, complaints } = window
    await page.getByRole('button', { name: 'Search' }).first().click()
    await page.locator('#localsearch-input').fill('chargeback')
    await page.locator('.VPLocalSearchBox .result', { hasText: 'payments' }).first().waitFor()
    await page.locator('#localsearch-input').fill('constant time')
    await page.locator('.VPLocalSearchBox .result', { hasText: 'Verify the signature' }).first().click()
    await page.waitForURL('**/docs/guides/webhooks#verify-the-signature')
    expect(complaints).toEqual([])
  })

  test('a code block has a button to copy it, colours and its file name', async () => {
    await using window = await openGuide('guides/products')
    const { page, complaints } = window
    const block = page.locator('.file-name', { hasText: 'product.mjs' }).locator('+ div')
    await block.hover()
    await block.getByRole('button', { name: 'Copy' }).click()
    await eventually(async () =>
      expect(await page.evaluate<string>('navigator.clipboard.readText()')).toMatch(
        /^import \{ LicenceClient \} from '@licensing\/sdk'\n/,
      ),
    )
    const colours = await page.evaluate<string[]>(
      "[...document.querySelectorAll('.file-name + div code span span')].map((span) => getComputedStyle(span).color)",
    )
    expect(new Set(colours).size).toBeGreaterThan(3)
    expect(complaints).toEqual([])
  })

  test('the page follows the dark mode of the system, and remembers the reader’s own choice', async () => {
    await using window = await openGuide('guides/lifecycle')
    const { page, complaints } = window
    const background = () => page.evaluate<string>('getComputedStyle(document.body).backgroundColor')
    const light = await background()
    await page.locator('.VPSwitchAppearance').first().click()
    await eventually(async () => expect(await background()).not.toBe(light))
    const dark = await background()
    await page.reload()
    await eventually(async () => expect(await background()).toBe(dark))
    await page.evaluate('localStorage.clear()')
    await page.emulateMedia({ colorScheme: 'dark' })
    await page.reload()
    await eventually(async () => expect(await background()).toBe(dark))
    expect(complaints).toEqual([])
  })

  test('the diagram of the lifecycle is an SVG in the colours of the page', async () => {
    await using window = await openGuide('guides/lifecycle')
    const { page, complaints } = window
    const diagram = page.locator('.diagram svg')
    for (const status of ['active', 'suspended', 'expired', 'downgraded', 'revoked', 'retired']) {
      await diagram.locator('text', { hasText: new RegExp(`^${status}$`) }).waitFor()
    }
    await diagram.locator('text', { hasText: 'a chargeback' }).waitFor()
    expect(await page.locator('main').textContent()).not.toContain('stateDiagram')
    const colour = () =>
      page.evaluate<string>("getComputedStyle(document.querySelector('.diagram svg text')).fill")
    const light = await colour()
    await page.locator('.VPSwitchAppearance').first().click()
    await eventually(async () => expect(await colour()).not.toBe(light))
    expect(complaints).toEqual([])
  })

  test('no guide scrolls sideways at 360 px or violates the content security policy', async () => {
    await using window = await openGuide('guides')
    const { page, complaints } = window
    const links = await page
      .locator('.VPSidebar a')
      .evaluateAll((all) => all.map((link) => (link as unknown as { pathname: string }).pathname))
    expect(links.length).toBeGreaterThan(18)
    await page.setViewportSize({ width: 360, height: 800 })
    for (const path of links) {
      await page.goto(`${world().stack.gatewayUrl}${path}`)
      await h1(page).waitFor()
      expect(await page.evaluate<number>(pageWidth), path).toBeLessThanOrEqual(360)
    }
    await page.locator('.VPLocalNav .menu').click()
    await page.locator('.VPSidebar.open').getByRole('link', { name: 'Quickstart' }).click()
    await page.waitForURL('**/docs/guides/quickstart')
    expect(complaints).toEqual([])
  })

  test.each(['guides/', 'guides/quickstart', 'guides/lifecycle', 'operations/scaling'])(
    '/docs/%s violates no rule of WCAG 2.2 AA in light mode, in dark mode and on a phone',
    async (path) => {
      await using window = await openGuide(path, true)
      await h1(window.page).waitFor()
      await expectEveryLook(window.page, `guides-${path.replace('/', '-')}`)
    },
  )
})
