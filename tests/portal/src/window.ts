import { chromium } from '@licensing/test-support/chromium'
import type { Stack } from '@licensing/test-support/stack-shape'
import {
  chromium as engine,
  type Browser,
  type BrowserContext,
  type Locator,
  type Page,
} from 'playwright-core'
import { expect } from 'vitest'

const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic']

export interface WindowOptions {
  /** The API key that is signed in, by default the stack's. Null: nobody is signed in. */
  key?: string | null
  /** The address to open, below /portal. */
  at?: string
  /** Another address of the gateway to open. There nobody is signed in. */
  path?: string
  /** The language of the browser. */
  locale?: string
  width?: number
  /** The test can advance the clock of the page. */
  clock?: boolean
}

/** A window of the portal with its own session. */
export interface Window extends AsyncDisposable {
  readonly page: Page
  /** Errors that the browser has reported, including violations of the content security policy. */
  readonly complaints: string[]
  heading(name: string | RegExp): Locator
  button(name: string, within?: Locator): Locator
  field(name: string, within?: Locator): Locator
  table(name: string): Locator
  region(name: string): Locator
  dialog(name: string): Locator
  /** Opens the alert dialog of a button and confirms it. */
  confirm(name: string): Promise<void>
  goTo(link: string): Promise<void>
  /** From now on the service executes these calls, and their answers, which it returns, do not arrive. `unroute` ends it. */
  loseAnswers(method: string, url: string): Promise<unknown[]>
}

/** One browser for all tests of a worker. */
export interface Windows {
  open(stack: Stack, options: WindowOptions): Promise<Window>
}

export async function startBrowser(): Promise<Windows> {
  const browser = await engine.launch({ executablePath: chromium!, args: flags })
  // A page is reused, because a new page would load, parse and compile the portal again.
  let idle: Page | undefined
  return {
    open: async (stack, options) => {
      const { clock = false, locale } = options
      const isShared = !clock && locale === undefined
      const page = (isShared && idle) || (await newPage(browser, locale))
      if (clock) await page.clock.install()
      if (isShared) idle = undefined
      const window = await openWindow(page, stack, options)
      return {
        ...window,
        [Symbol.asyncDispose]: async () => {
          const isClean = isShared && !idle && (await leave(page, stack))
          if (isClean) idle = page
          else await page.context().close()
        },
      }
    },
  }
}

async function newPage(browser: Browser, locale?: string): Promise<Page> {
  const context = await browser.newContext({ reducedMotion: 'reduce', ...(locale && { locale }) })
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  const page = await context.newPage()
  page.setDefaultTimeout(60_000)
  return page
}

/** Clears the page for the next test. @returns whether that succeeded */
async function leave(page: Page, { gatewayUrl }: Stack): Promise<boolean> {
  try {
    for (const event of ['console', 'pageerror', 'request', 'dialog']) page.removeAllListeners(event)
    await page.unrouteAll({ behavior: 'ignoreErrors' })
    await page.context().clearCookies()
    // A page of the same origin, because the browser would start another process for about:blank and again after it.
    await page.goto(`${gatewayUrl}/healthz`)
    await page.evaluate('localStorage.clear(), sessionStorage.clear()')
    return true
  } catch {
    return false
  }
}

async function openWindow(
  page: Page,
  stack: Stack,
  options: WindowOptions,
): Promise<Omit<Window, typeof Symbol.asyncDispose>> {
  const { at = '', width = 1280, path } = options
  const { key = path === undefined ? stack.apiKey : null } = options
  await page.setViewportSize({ width, height: 900 })
  await page.emulateMedia({ colorScheme: 'light' })
  const complaints: string[] = []
  page.on('console', (message) => {
    // The call that asks for the session answers 401 if nobody is signed in, and the browser reports that.
    if (message.type() === 'error' && !/status of 401/.test(message.text())) complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(error.message))
  if (key !== null) await signIn(page.context(), stack, key)
  await page.goto(`${stack.gatewayUrl}${path ?? `/portal${at}`}`)
  return {
    page,
    complaints,
    heading: (name) => page.getByRole('heading', { level: 1, name }),
    button: (name, within) => (within ?? page).getByRole('button', { name, exact: true }),
    field: (name, within) => (within ?? page).getByLabel(name, { exact: true }),
    table: (name) => page.getByRole('table', { name, exact: true }),
    region: (name) => page.getByRole('region', { name, exact: true }),
    dialog: (name) => page.getByRole('dialog', { name, exact: true }),
    confirm: async (name) => {
      const dialog = page.getByRole('alertdialog', { name, exact: true })
      await dialog.getByRole('button', { name, exact: true }).click()
      await dialog.waitFor({ state: 'hidden' })
    },
    goTo: async (link) => {
      await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: link }).click()
      await page.getByRole('heading', { level: 1, name: link }).waitFor()
    },
    loseAnswers: async (method, url) => {
      const answers: unknown[] = []
      await page.route(url, async (route) => {
        if (route.request().method() !== method) return route.fallback()
        const answer = await route.fetch()
        answers.push(await answer.json())
        return route.abort('connectionreset')
      })
      return answers
    },
  }
}

async function signIn(context: BrowserContext, { gatewayUrl }: Stack, key: string): Promise<void> {
  const headers = { 'x-requested-with': 'portal' }
  const signedIn = await context.request.post(`${gatewayUrl}/portal/session`, { data: { key }, headers })
  expect(signedIn.status()).toBe(204)
}
