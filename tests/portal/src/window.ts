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
  /** An API key that is signed in; null for a window that is signed out. The stack's when absent. */
  key?: string | null
  /** The address below /portal that is opened. */
  at?: string
  width?: number
  colorScheme?: 'light' | 'dark'
  /** Lets a test put its own script into the page. */
  bypassCSP?: boolean
}

/** A window of the portal; its session is its own. */
export interface Window extends AsyncDisposable {
  readonly page: Page
  /** What the browser has complained about: violations of the policy among it. */
  readonly complaints: string[]
  heading(name: string | RegExp): Locator
  button(name: string, within?: Locator): Locator
  field(name: string, within?: Locator): Locator
  table(name: string): Locator
  region(name: string): Locator
  dialog(name: string): Locator
  /** The alert dialog that a button asks with. */
  confirm(name: string): Promise<void>
  goTo(link: string): Promise<void>
}

/** One browser for all tests of a worker. */
export interface Windows {
  open(stack: Stack, options: WindowOptions): Promise<Window>
}

export async function startBrowser(): Promise<Windows> {
  const browser = await engine.launch({ executablePath: chromium!, args: flags })
  // A page that was closed is opened again: another one would load, parse and compile the portal again.
  const idle = new Map<boolean, Page>()
  return {
    open: async (stack, options) => {
      const { bypassCSP = false } = options
      const page = idle.get(bypassCSP) ?? (await newPage(browser, bypassCSP))
      idle.delete(bypassCSP)
      const window = await openWindow(page, stack, options)
      return {
        ...window,
        [Symbol.asyncDispose]: async () => {
          const isClean = await leave(page, stack)
          if (isClean && !idle.has(bypassCSP)) idle.set(bypassCSP, page)
          else await page.context().close()
        },
      }
    },
  }
}

async function newPage(browser: Browser, bypassCSP: boolean): Promise<Page> {
  const context = await browser.newContext({ bypassCSP, reducedMotion: 'reduce' })
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  const page = await context.newPage()
  page.setDefaultTimeout(60_000)
  return page
}

/** Whether nothing of the test is left in the page. */
async function leave(page: Page, { gatewayUrl }: Stack): Promise<boolean> {
  try {
    for (const event of ['console', 'pageerror', 'request', 'dialog']) page.removeAllListeners(event)
    await page.unrouteAll({ behavior: 'ignoreErrors' })
    await page.context().clearCookies()
    // A page of the same address: for about:blank, and again after it, the browser would start another process.
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
  const { key = stack.apiKey, at = '', width = 1280, colorScheme = 'light' } = options
  await page.setViewportSize({ width, height: 900 })
  await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
  const complaints: string[] = []
  page.on('console', (message) => {
    // Whether somebody is signed in is asked by a call, which the browser reports when it is refused.
    if (message.type() === 'error' && !/status of 401/.test(message.text())) complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(error.message))
  if (key !== null) await signIn(page.context(), stack, key)
  await page.goto(`${stack.gatewayUrl}/portal${at}`)
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
  }
}

async function signIn(context: BrowserContext, { gatewayUrl }: Stack, key: string): Promise<void> {
  const headers = { 'x-requested-with': 'portal' }
  const signedIn = await context.request.post(`${gatewayUrl}/portal/session`, { data: { key }, headers })
  expect(signedIn.status()).toBe(204)
}
