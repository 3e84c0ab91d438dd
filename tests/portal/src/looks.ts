import type { AxeResults } from 'axe-core'
import { mkdir } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js')
const levels = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']
/** The rules that depend on colours. Dark mode changes nothing else. */
const ofColours = ['color-contrast', 'link-in-text-block']
/** The rules that depend on sizes and on hidden elements. */
const ofSizes = ['target-size', 'scrollable-region-focusable', 'color-contrast']

const shots = fileURLToPath(new URL('../screenshots', import.meta.url))
const keepsPictures = Boolean(process.env['PORTAL_PICTURES'])
export const pageWidth = 'document.documentElement.scrollWidth'

/**
 * Expects that the page violates no WCAG 2.2 AA rule of axe in light and dark mode, and does not scroll sideways at 360 px.
 * The window needs `bypassCSP`. With PORTAL_PICTURES it saves a screenshot of each look.
 */
export async function expectEveryLook(page: Page, name: string): Promise<void> {
  await page.emulateMedia({ colorScheme: 'light' })
  expect(await violations(page), `${name} light`).toEqual([])
  await keepPicture(page, `${name}-light`)
  await page.emulateMedia({ colorScheme: 'dark' })
  expect(await violations(page, ofColours), `${name} dark`).toEqual([])
  await keepPicture(page, `${name}-dark`)
  await page.emulateMedia({ colorScheme: 'light' })
  await page.setViewportSize({ width: 360, height: 800 })
  expect(await page.evaluate<number>(pageWidth), name).toBeLessThanOrEqual(360)
  expect(await violations(page, ofSizes), `${name} on a phone`).toEqual([])
  await keepPicture(page, `${name}-phone`)
  await page.setViewportSize({ width: 1280, height: 900 })
}

async function keepPicture(page: Page, name: string): Promise<void> {
  if (!keepsPictures) return
  await mkdir(shots, { recursive: true })
  await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true })
}

/** The violations on the page, by rule and element. @param rules by default all of WCAG 2.2 AA */
export async function violations(page: Page, rules?: readonly string[]): Promise<string[]> {
  if (await page.evaluate<boolean>("typeof axe === 'undefined'")) await page.addScriptTag({ path: axe })
  const runOnly = rules ? { type: 'rule', values: rules } : { type: 'tag', values: levels }
  const { violations: found } = await page.evaluate<AxeResults>(
    `axe.run({ runOnly: ${JSON.stringify(runOnly)}, resultTypes: ['violations'], preload: false })`,
  )
  return found.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`))
}
