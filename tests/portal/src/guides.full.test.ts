import { drawing, drawn } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { expectAccessible, pageWidth } from './looks.ts'
import type { Window } from './window.ts'
import { portalTests } from './world.ts'

const h1 = (page: Page) => page.locator('main h1')

portalTests('the guides', (world) => {
  const openGuide = async (path: string): Promise<Window> => {
    const window = await world().open({ key: null })
    window.complaints.length = 0
    await window.page.goto(`${world().stack.gatewayUrl}/docs/${path}`, { waitUntil: 'networkidle' })
    return window
  }

  test('sidebar, contents, next page, back and search work without a request to another host', async () => {
    await using window = await openGuide('guides/quickstart')
    const { page, complaints } = window
    const hosts = new Set<string>()
    page.on('request', (request) => hosts.add(new URL(request.url()).origin))
    const sidebar = page.locator('.VPSidebar')
    await sidebar.getByRole('link', { name: 'Webhooks', exact: true }).click()
    await page.waitForURL('**/docs/guides/webhooks')
    // The address changes before the page.
    await h1(page).filter({ hasText: 'Webhooks' }).waitFor()
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

    await page.getByRole('button', { name: 'Search' }).first().click()
    await page.locator('#localsearch-input').fill('chargeback')
    await page.locator('.VPLocalSearchBox .result', { hasText: 'payments' }).first().waitFor()
    await page.locator('#localsearch-input').fill('constant time')
    await page.locator('.VPLocalSearchBox .result', { hasText: 'Verify the signature' }).first().click()
    await page.waitForURL('**/docs/guides/webhooks#verify-the-signature')
    await page.locator('.VPNavBar').getByRole('link', { name: 'API reference' }).click()
    await page.waitForURL('**/docs')
    expect([...hosts]).toEqual([world().stack.gatewayUrl])
    expect(complaints).toEqual([])
  })

  test('a code block has its file name and a button to copy it; the diagram of the lifecycle has the colours of the page', async () => {
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
    await page.goto(`${world().stack.gatewayUrl}/docs/guides/lifecycle`)
    const diagram = page.locator('.diagram svg')
    for (const text of ['active', 'suspended', 'expired', 'downgraded', 'revoked', 'retired']) {
      await diagram.locator('text', { hasText: new RegExp(`^${text}$`) }).waitFor()
    }
    expect(await page.locator('main').textContent()).not.toContain('stateDiagram')
    const colours = () =>
      page.evaluate<string[]>(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('.diagram svg text')).fill]",
      )
    const [background, ink] = await colours()
    await page.emulateMedia({ colorScheme: 'dark' })
    await eventually(async () => {
      const [changed, inkNow] = await colours()
      expect(changed).not.toBe(background)
      expect(inkNow).not.toBe(ink)
    })
    expect(complaints).toEqual([])
  })

  test.each(['quickstart', 'products', 'offline', 'webhooks', 'testing', 'backends'])(
    'in /docs/guides/%s each section has tabs of the same languages, and a click shows one language in all of them',
    async (guide) => {
      await using window = await openGuide(`guides/${guide}`)
      const { page, complaints } = window
      const groups = page.getByRole('tablist', { name: 'Language' })
      await groups.first().waitFor()
      const names = await Promise.all(
        (await groups.all()).map((group) => group.getByRole('tab').allTextContents()),
      )
      expect(names[0]).toEqual(expect.arrayContaining(['TypeScript', 'Python']))
      expect(names).toEqual(names.map(() => names[0]))
      for (const name of names[0]!.toReversed()) {
        await groups.last().getByRole('tab', { name, exact: true }).click()
        // Those that are hidden do not count.
        await eventually(async () => expect(await page.getByRole('tabpanel').count()).toBe(names.length))
        expect(await page.getByRole('tabpanel', { name, exact: true }).count()).toBe(names.length)
      }
      expect(complaints).toEqual([])
    },
  )

  test('the chosen language counts on other pages and after a reload, a link to a heading chooses its language, and without a script all are shown', async () => {
    await using window = await openGuide('guides/products')
    const { page } = window
    const at = (path: string) => page.goto(`${world().stack.gatewayUrl}/docs/guides/${path}`)
    const program = (name: string) => page.locator('.file-name', { hasText: name }).first()
    await page.getByRole('tab', { name: 'Python', exact: true }).first().click()
    await program('product.py').waitFor()
    expect(await program('product.mjs').isVisible()).toBe(false)
    await page.reload()
    await program('product.py').waitFor()
    await at('webhooks')
    await page.getByRole('tabpanel', { name: 'Python', exact: true }).waitFor()
    await at('products#go-1')
    await program('product.go').waitFor()
    expect(await program('product.py').isVisible()).toBe(false)

    const html = await (await fetch(`${world().stack.gatewayUrl}/docs/guides/products`)).text()
    expect(html).not.toContain('role="tab"')
    for (const name of ['product.mjs', 'product.py', 'product.go']) expect(html).toContain(name)
  })

  test(`no guide scrolls sideways at 360 px or violates the content security policy (${drawing})`, async () => {
    await using window = await openGuide('guides')
    const { page, complaints } = window
    const links = await page
      .locator('.VPSidebar a')
      .evaluateAll((all) => all.map((link) => (link as unknown as { pathname: string }).pathname))
    expect(links.length).toBeGreaterThan(18)
    await page.setViewportSize({ width: 360, height: 800 })
    for (const path of drawn(links, 4)) {
      await page.goto(`${world().stack.gatewayUrl}${path}`)
      await h1(page).waitFor()
      expect(await page.evaluate<number>(pageWidth), path).toBeLessThanOrEqual(360)
    }
    await page.locator('.VPLocalNav .menu').click()
    await page.locator('.VPSidebar.open').getByRole('link', { name: 'Quickstart' }).click()
    await page.waitForURL('**/docs/guides/quickstart')
    expect(complaints).toEqual([])
  })

  test.each(drawn(['guides/', 'guides/quickstart', 'guides/lifecycle', 'operations/scaling'], 1))(
    `/docs/%s violates no rule of WCAG 2.2 AA in light mode, in dark mode and on a phone (${drawing})`,
    async (path) => {
      await using window = await openGuide(path)
      await h1(window.page).waitFor()
      await expectAccessible(window.page, `guides-${path.replace('/', '-')}`)
    },
  )
})
