import { fullTest } from '@licensing/test-support/drawn'
import { LicenceClient } from '@licensing/sdk'
import { eventually } from '@licensing/test-support/poll'
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { expectAccessible, pageWidth, violations } from './looks.ts'
import type { Window, WindowOptions } from './window.ts'
import { atProcessor, connectProcessor } from './processor.ts'
import { portalTests, type Licence, type World } from './world.ts'

const MAX_SCRIPT_BYTES = 90 * 1024

/** A vendor with a page for customers, and a licence. */
async function givenCustomer(world: World, { name, page = {}, licence = {} }: Given = {}) {
  const { stack, vendor } = world
  const one = await vendor(name)
  const set = (fields: object) => stack.api.patch(one.app, { body: { customer_page: fields } })
  if (Object.keys(page).length > 0) expect((await set(page)).status).toBe(200)
  await one.define('export_pdf', 'feature', 'true', 'PDF export')
  await one.define('max_projects', 'limit', '25', 'Projects')
  const { id: planId } = await one.plan('Professional')
  const issued = await one.issue(planId, 'customer-1', { restrictions: { max_activations: 200 }, ...licence })
  const sessions = `/v1/licences/${issued.id}/customer-sessions`
  /** The path and the fragment of a new link. */
  const link = async (fields: object = {}, path = sessions) => {
    const { body } = await stack.api.post<{ url: string }>(path, { body: fields })
    return body.url.slice(stack.gatewayUrl.length)
  }
  return {
    ...one,
    planId,
    licence: issued,
    link,
    linkOf: ({ id }: Licence) => link({}, `/v1/licences/${id}/customer-sessions`),
    endSessions: async () => expect((await stack.api.delete(sessions)).status).toBe(204),
    open: async (options: WindowOptions = {}) => world.open({ path: await link(), ...options }),
  }
}

interface Given {
  name?: string
  page?: object
  licence?: object
}

const machineRows = (window: Window) => window.table('Machines').locator('tbody').getByRole('row')

/** Removes the machine of this name. */
async function remove(window: Window, host: string): Promise<void> {
  await window.button('Remove', machineRows(window).filter({ hasText: host })).click()
  const asked = window.page.getByRole('alertdialog')
  await asked.getByText(host).waitFor()
  await window.button('Remove', asked).click()
}

portalTests('the customer’s page', (world) => {
  test('a link shows the licence, its address has no token, and reloading goes on', async () => {
    const one = await givenCustomer(world(), { licence: { expires_on: '2031-03-04T12:00:00.000Z' } })
    await one.activate(one.licence, 'studio.example')
    const asked: { url: string; referer: string | undefined }[] = []
    await using window = await one.open({ path: '/customer' })
    const { page, button, region } = window
    await page.getByText('open the link that you got').waitFor()
    page.on('request', (request) => asked.push({ url: request.url(), referer: request.headers()['referer'] }))
    const link = await one.link({ return_url: 'https://shop.example.com/account' })
    await page.goto(`${world().stack.gatewayUrl}${link}`)
    await window.heading(one.name).waitFor()
    expect(page.url()).toBe(`${world().stack.gatewayUrl}/customer`)
    await page.reload()
    await window.heading(one.name).waitFor()
    expect(await page.title()).toBe(one.name)
    const licence = region('Licence')
    for (const text of [
      one.licence.key,
      'Professional',
      'valid until March 4, 2031',
      'PDF export: included',
      'Projects: 25',
    ]) {
      await licence.getByText(text).waitFor()
    }
    await button('Copy key', licence).click()
    await licence.getByText('Copied').waitFor()
    expect(await page.evaluate<string>('navigator.clipboard.readText()')).toBe(one.licence.key)
    expect(await machineRows(window).count()).toBe(1)
    expect(await page.getByRole('link', { name: 'Back', exact: true }).getAttribute('href')).toBe(
      'https://shop.example.com/account',
    )
    expect(await page.getByRole('link', { name: 'Support' }).count()).toBe(0)
    expect(await region('Offline machine').count()).toBe(0)
    expect(await button('Manage subscription').count()).toBe(0)
    // The token is in no address and in no referrer, and nothing is loaded from elsewhere.
    const token = link.split('#')[1]!
    expect(asked.length).toBeGreaterThan(0)
    for (const { url, referer } of asked) {
      expect(url.startsWith(world().stack.gatewayUrl)).toBe(true)
      expect(url).not.toContain(token)
      expect(referer ?? '').toBe('')
    }
    expect(window.complaints).toEqual([])
  })

  test('a second link in the same tab replaces the first, and another tab keeps its own', async () => {
    const one = await givenCustomer(world(), { page: { accent_color: '#b00020' } })
    const two = await givenCustomer(world())
    await using window = await one.open()
    const { page } = window
    await window.heading(one.name).waitFor()
    const other = await page.context().newPage()
    await other.goto(`${world().stack.gatewayUrl}${await one.link()}`)
    await other.getByRole('heading', { level: 1, name: one.name }).waitFor()
    const accent = () => page.evaluate<string>("document.documentElement.style.getPropertyValue('--accent')")
    expect(await accent()).toBe('#b00020')
    await page.goto(`${world().stack.gatewayUrl}${await two.link()}`)
    await window.heading(two.name).waitFor()
    expect(await accent()).toBe('')
    await page.reload()
    await window.heading(two.name).waitFor()
    await page.getByText(two.licence.key).waitFor()
    await other.reload()
    await other.getByText(one.licence.key).waitFor()
    await other.close()
  })

  test('“Manage subscription” leads to the processor’s page, and the page goes on when the customer comes back', async () => {
    await connectProcessor(world())
    const one = await givenCustomer(world())
    const { stack } = world()
    const { id: planId } = await one.plan('Monthly')
    await one.price(planId, { mode: 'subscription' })
    const shop = 'https://shop.example.com/'
    const body = { plan_id: planId, external_ref: 'subscriber', success_url: shop, cancel_url: shop }
    const checkout = await stack.api.post<{ url: string }>(`${one.app}/checkout-sessions`, { body })
    await atProcessor(world(), 'pay', { session: new URL(checkout.body.url).pathname.split('/').at(-1) })
    const licence = await eventually(async () => {
      const bought = (await one.licences()).find(({ external_ref: customer }) => customer === 'subscriber')
      expect(bought).toBeDefined()
      return bought!
    })
    await using window = await one.open({ path: await one.linkOf(licence) })
    const { page, button, region } = window
    await region('Licence').getByText('renews on').waitFor()
    await button('Manage subscription').click()
    await page.waitForURL(`${stack.simulator!.url}/portal/*`)
    await button('Cancel at the end of the period').click()
    await page.getByText('Do not cancel').waitFor()
    await page.getByRole('link', { name: 'Go back' }).click()
    await window.heading(one.name).waitFor()
    expect(page.url()).toBe(`${stack.gatewayUrl}/customer`)
    await eventually(async () => {
      await page.reload()
      await region('Licence').getByText('is not renewed').waitFor({ timeout: 500 })
    })
    // The processor refuses: its portal was not set up.
    const processor = await stack.api.get<{ connected_account: string }>('/v1/processor')
    const account = processor.body.connected_account
    await atProcessor(world(), 'settings', { account, billing_portal: false })
    await button('Manage subscription').click()
    await page.getByRole('alert').getByText('subscription').waitFor()
    await atProcessor(world(), 'settings', { account, billing_portal: true })
  })

  test('a session that ended says so and what to do, also in the middle of a removal, and on a link that ended', async () => {
    const one = await givenCustomer(world())
    await one.activate(one.licence, 'studio.example')
    const link = await one.link()
    await using window = await one.open({ path: link })
    const { page, button } = window
    await button('Remove').click()
    await one.endSessions()
    await eventually(async () => {
      const { status } = await world().stack.api.get('/v1/customer/licence', { key: link.split('#')[1]! })
      expect(status).toBe(401)
    })
    await button('Remove', page.getByRole('alertdialog')).click()
    const ended = page.getByRole('alert').getByText('ask the seller of your software for a new one')
    await ended.waitFor()
    expect(await page.getByRole('region').count()).toBe(0)
    await window.heading(one.name).waitFor()
    await page.goto(`${world().stack.gatewayUrl}/healthz`)
    await page.goto(`${world().stack.gatewayUrl}${link}`)
    await ended.waitFor()
    await expectAccessible(page, 'customer-ended')
    // A link after that is for the sessions from then on.
    await page.goto(`${world().stack.gatewayUrl}${await one.link()}`)
    await window.heading(one.name).waitFor()
  })

  test('a machine is removed after a confirmation, and a sentence says how many can still be removed today', async () => {
    const one = await givenCustomer(world(), { page: { frees_per_day: 2 } })
    for (const host of ['one.example', 'two.example', 'three.example']) await one.activate(one.licence, host)
    await using window = await one.open()
    const { page, button, region } = window
    const machines = region('Machines')
    await machines.getByText('3 of 200 machines in use').waitFor()
    await machines.getByText('You can remove 2 more machines today.').waitFor()
    await button('Remove', machineRows(window).filter({ hasText: 'one.example' })).click()
    await button('Cancel', page.getByRole('alertdialog')).click()
    expect(await machineRows(window).count()).toBe(3)
    await remove(window, 'one.example')
    await machines.getByRole('status').getByText('one.example was removed.').waitFor()
    await machines.getByText('You can remove one more machine today.').waitFor()
    expect(await machineRows(window).count()).toBe(2)
    await remove(window, 'two.example')
    await machines.getByText('You cannot remove another machine today. Tomorrow you can.').waitFor()
    await remove(window, 'three.example')
    await page.getByRole('alertdialog').getByRole('alert').getByText('Tomorrow you can.').waitFor()
    expect(await machineRows(window).count()).toBe(1)
  })

  fullTest(
    'a machine that was removed in another tab is said to be gone, and trying again after a lost answer says the same',
    async () => {
      const one = await givenCustomer(world())
      for (const host of ['one.example', 'two.example']) await one.activate(one.licence, host)
      await using window = await one.open()
      const { page, button } = window
      const asked = page.getByRole('alertdialog')
      const other = await page.context().newPage()
      await other.goto(`${world().stack.gatewayUrl}${await one.link()}`)
      await other.getByRole('row', { name: /^one/ }).getByRole('button').click()
      await other.getByRole('alertdialog').getByRole('button', { name: 'Remove' }).click()
      await other.getByText('one.example was removed.').waitFor()
      await other.close()
      await remove(window, 'one.example')
      await asked.getByText('was removed already').waitFor()
      await button('Cancel', asked).click()
      await eventually(async () => expect(await machineRows(window).count()).toBe(1))
      // The service removes the machine, and its answer is lost.
      const url = '**/v1/customer/activations/*'
      await page.route(url, async (route) => {
        await route.fetch()
        await route.abort('connectionreset')
      })
      await remove(window, 'two.example')
      await asked.getByText('Check your connection').waitFor()
      await page.unroute(url)
      await button('Remove', asked).click()
      await asked.getByText('was removed already').waitFor()
      await page.keyboard.press('Escape')
      await window.region('Machines').getByText('no machine yet').waitFor()
    },
  )

  test('the request of a machine without a network becomes a licence file that works there', async () => {
    const one = await givenCustomer(world(), { page: { offline_days: 30 } })
    const { body: app } = await world().stack.api.get<{ root_key: string }>(one.app)
    using product = new LicenceClient({
      baseUrl: 'http://127.0.0.1:9',
      appId: one.appId,
      rootKey: app.root_key,
      licenceKey: one.licence.key,
      fingerprint: randomUUID(),
      host: 'cabin.example',
      productVersion: '4.2.0',
      background: false,
    })
    await using window = await one.open()
    const { page, button, field, region } = window
    const offline = region('Offline machine')
    await button('Download licence file', offline).click()
    await offline.getByText('Choose the request file first.').waitFor()
    const choose = (text: string) =>
      field('Request file', offline).setInputFiles({
        name: 'request.txt',
        mimeType: 'text/plain',
        buffer: Buffer.from(text),
      })
    await choose('holiday picture')
    await button('Download licence file', offline).click()
    await offline.getByText('not a request file of your licence').waitFor()
    await choose(product.createOfflineRequest())
    expect(await field('Days', offline).inputValue()).toBe('30')
    await field('Days', offline).fill('31')
    await button('Download licence file', offline).click()
    await offline.getByText('Enter a whole number of days from 1 to 30.').waitFor()
    await field('Days', offline).fill('7')
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      button('Download licence file', offline).click(),
    ])
    await offline.getByText('The licence file works until').waitFor()
    const text = await readFile(await download.path(), 'utf8')
    expect(await product.activateOffline(text)).toMatchObject({ usable: true })
    expect(product.limit('max_projects')).toBe(25)
    await machineRows(window).filter({ hasText: 'cabin.example' }).waitFor()
    await remove(window, 'cabin.example')
    await page.getByRole('alertdialog').getByText('has a licence file that has not ended yet').waitFor()
  })

  test('a customer signs in with the licence key; a wrong key is an alert, and the input stays', async () => {
    const page = { key_sign_in: true, support_url: 'mailto:help@example.com', accent_color: '#ffd400' }
    const one = await givenCustomer(world(), { page })
    const path = `/customer/${one.appId}`
    await using window = await one.open({ path })
    const { page: tab, button, field } = window
    await window.heading(one.name).waitFor()
    expect(await tab.getByRole('link', { name: 'Support' }).getAttribute('href')).toBe(
      'mailto:help@example.com',
    )
    await field('Licence key').fill('7K3QX-wrong')
    await button('Continue').click()
    await tab.getByRole('alert').getByText('no licence with this key').waitFor()
    expect(await field('Licence key').inputValue()).toBe('7K3QX-wrong')
    await expectAccessible(tab, 'customer-sign-in')
    await field('Licence key').fill(one.licence.key.toLowerCase())
    await tab.keyboard.press('Enter')
    await window.region('Licence').getByText(one.licence.key).waitFor()
    await tab.reload()
    await window.region('Licence').waitFor()
    // The processor's page returns to this address.
    await tab.goto(`${world().stack.gatewayUrl}/customer`)
    await window.region('Licence').waitFor()
    await one.endSessions()
    await eventually(async () => {
      await tab.reload()
      await tab.getByRole('alert').getByText('enter your licence key again').waitFor({ timeout: 1_000 })
    })
    await field('Licence key').waitFor()
    expect(new URL(tab.url()).pathname).toBe(path)
  })

  test('when the service cannot be reached, the page says so, keeps the input, and offers to try again', async () => {
    const one = await givenCustomer(world(), { page: { key_sign_in: true } })
    await using window = await one.open({ path: `/customer/${one.appId}` })
    const { page, button, field } = window
    const isAway = page.getByRole('alert').getByText('Check your connection, then try again.')
    await field('Licence key').fill(one.licence.key)
    await page.route('**/v1/**', (route) => route.abort('connectionrefused'))
    await button('Continue').click()
    await isAway.waitFor()
    expect(await field('Licence key').inputValue()).toBe(one.licence.key)
    await page.unroute('**/v1/**')
    await button('Continue').click()
    await window.region('Licence').waitFor()
    await page.route('**/v1/**', (route) => route.abort('connectionrefused'))
    await page.reload()
    await isAway.waitFor()
    await page.unroute('**/v1/**')
    await button('Try again').click()
    await window.region('Licence').waitFor()
  })

  test('if customers cannot sign in with a key, the page says that it is not available', async () => {
    const one = await givenCustomer(world())
    await using window = await one.open({ path: `/customer/${one.appId}` })
    await window.page.getByText('This page is not available.').waitFor()
    expect(await window.field('Licence key').count()).toBe(0)
    const answer = await fetch(`${world().stack.gatewayUrl}/customer/${one.appId}`)
    expect(answer.status).toBe(404)
  })

  fullTest('a browser in German gets German, and any other language English', async () => {
    const one = await givenCustomer(world(), { page: { offline_days: 30 } })
    await one.activate(one.licence, 'studio.example')
    for (const [locale, language, texts] of [
      ['de-AT', 'de', ['Lizenz', 'Geräte', 'Gerät ohne Internet']],
      ['fr-FR', 'en', ['Licence', 'Machines', 'Offline machine']],
    ] as const) {
      await using window = await one.open({ locale })
      for (const name of texts) await window.region(name).waitFor()
      expect(await window.page.evaluate<string>('document.documentElement.lang')).toBe(language)
      await expectAccessible(window.page, `customer-${language}`)
    }
  })

  fullTest(
    'with a hundred machines and the longest texts, the page violates no WCAG 2.2 AA rule and scrolls sideways at no width',
    async () => {
      const page = { accent_color: '#767676', offline_days: 366, support_url: 'https://example.com/help' }
      const one = await givenCustomer(world(), { name: 'N'.repeat(200), page })
      await one.activate(one.licence, `${'h'.repeat(63)}.${'h'.repeat(63)}.${'h'.repeat(63)}.example`, {
        product_version: '9'.repeat(128),
      })
      for (let at = 0; at < 100; at++) await one.activate(one.licence, `render-${at}.example`)
      await using window = await one.open()
      const { page: tab } = window
      await tab.getByText('The newest 100 of 101 machines are shown.').waitFor()
      await expectAccessible(tab, 'customer-hundred')
      for (const width of [360, 640, 700, 1280]) {
        await tab.setViewportSize({ width, height: 900 })
        expect(await tab.evaluate<number>(pageWidth)).toBeLessThanOrEqual(width)
      }
      await machineRows(window).first().getByRole('button').click()
      await expectAccessible(tab, 'customer-dialog')
    },
  )

  fullTest('whatever colour the vendor chose, axe finds no poor contrast in light and dark', async () => {
    const one = await givenCustomer(world(), {
      page: { offline_days: 1, support_url: 'https://example.com' },
    })
    await using window = await one.open()
    const { page } = window
    for (const accent_color of ['#ffffff', '#000000', '#ffff00', '#767676', '#ff0000', '#0b6e4f']) {
      await world().stack.api.patch(one.app, { body: { customer_page: { accent_color } } })
      await eventually(async () => {
        await page.reload()
        await window.region('Licence').waitFor()
        const set = await page.evaluate("document.documentElement.style.getPropertyValue('--accent')")
        expect(set).toBe(accent_color)
      })
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        expect(await violations(page, ['color-contrast']), `${accent_color} ${colorScheme}`).toEqual([])
      }
    }
  })

  fullTest('the keyboard alone copies, removes, and gets the focus back where it was', async () => {
    const one = await givenCustomer(world())
    for (const host of ['one.example', 'two.example']) await one.activate(one.licence, host)
    await using window = await one.open()
    const { page } = window
    await machineRows(window).nth(1).waitFor()
    const focused = () => page.evaluate<string>('document.activeElement.textContent')
    const tabTo = async (name: string) => {
      await page.keyboard.press('Tab')
      await eventually(async () => expect(await focused()).toBe(name))
    }
    await tabTo('Copy key')
    await page.keyboard.press('Enter')
    await page.getByText('Copied').waitFor()
    await tabTo('Remove')
    await page.keyboard.press('Enter')
    const asked = page.getByRole('alertdialog')
    await asked.waitFor()
    expect(await focused()).toBe('Cancel')
    await page.keyboard.press('Escape')
    await page.locator('dialog').waitFor({ state: 'detached' })
    expect(await focused()).toBe('Remove')
    await page.keyboard.press('Enter')
    await eventually(async () => expect(await focused()).toBe('Cancel'))
    await tabTo('Remove')
    await page.keyboard.press('Enter')
    await page.getByText('was removed.').waitFor()
    await eventually(async () => expect(await focused()).toContain('1 of 200 machines in use'))
    await tabTo('Remove')
  })

  test('the first load is at most 90 KiB of compressed JavaScript, and no word of this service is on the page', async () => {
    const one = await givenCustomer(world(), { name: 'Acme' })
    await using window = await one.open()
    const { page } = window
    await window.region('Machines').waitFor()
    const scripts = await page.evaluate<{ name: string; encodedBodySize: number }[]>(
      "performance.getEntriesByType('resource').map((entry) => entry.toJSON()).filter(({ name }) => name.endsWith('.js'))",
    )
    expect(scripts.length).toBeGreaterThan(0)
    const bytes = scripts.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)
    expect(bytes).toBeLessThanOrEqual(MAX_SCRIPT_BYTES)
    expect(await page.content()).not.toMatch(/licensing/i)
    for (const { name } of scripts) expect(await (await fetch(name)).text()).not.toMatch(/licensing/i)
  })

  test('a name that looks like HTML is text, and the page is strict about what it loads and who frames it', async () => {
    const name = `<img src=x onerror="document.title='out'"></title><script>alert(1)</script>`
    const one = await givenCustomer(world(), { name })
    await one.activate(one.licence, '<b>host</b>')
    await using window = await one.open()
    await window.heading(name).waitFor()
    await machineRows(window).getByText('<b>host</b>').waitFor()
    expect(await window.page.title()).toBe(name)
    expect(await window.page.locator('main img, h1 *, header script, main b').count()).toBe(0)
    expect(window.complaints).toEqual([])
    for (const support_url of ['javascript:alert(1)', 'data:text/html,x', 'https://x" onclick="y', '//x']) {
      const { status } = await world().stack.api.patch(one.app, { body: { customer_page: { support_url } } })
      expect(status, support_url).toBe(422)
    }
    for (const accent_color of ['red', '#fff', '#0b6e4f;}', 'url(//x)']) {
      const { status } = await world().stack.api.patch(one.app, { body: { customer_page: { accent_color } } })
      expect(status, accent_color).toBe(422)
    }
    for (const path of ['/customer', `/customer/${one.appId}`]) {
      const { headers } = await fetch(`${world().stack.gatewayUrl}${path}`)
      const policy = headers.get('content-security-policy')
      expect(policy).toContain("default-src 'none'")
      expect(policy).toContain("frame-ancestors 'none'")
      expect(policy).not.toMatch(/unsafe/)
      expect(headers.get('referrer-policy')).toBe('no-referrer')
    }
  })
})
