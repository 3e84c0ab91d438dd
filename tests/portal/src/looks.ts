import { drawn } from '@licensing/test-support/drawn'
import type { AxeResults } from 'axe-core'
import { readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const levels = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']

/** The looks of a page, and the rules that depend on each; by default all of WCAG 2.2 AA. */
const looks = [
  { name: 'light', colorScheme: 'light', width: 1280 },
  { name: 'dark', colorScheme: 'dark', width: 1280, rules: ['color-contrast', 'link-in-text-block'] },
  {
    name: 'phone',
    colorScheme: 'light',
    width: 360,
    rules: ['target-size', 'scrollable-region-focusable', 'color-contrast'],
  },
] as const

const shots = fileURLToPath(new URL('../screenshots', import.meta.url))
const keepsPictures = Boolean(process.env['PORTAL_PICTURES'])
export const pageWidth = 'document.documentElement.scrollWidth'

let calls = 0

/**
 * Expects that the page violates no WCAG 2.2 AA rule of axe in light and dark mode, and does not scroll sideways at 360 px.
 * `npm test` draws one look for each call. With PORTAL_PICTURES it saves a screenshot of each look.
 */
export async function expectAccessible(page: Page, name: string): Promise<void> {
  const turn = calls++ % looks.length
  const turned = [...looks.slice(turn), ...looks.slice(0, turn)]
  for (const look of drawn(turned, keepsPictures ? looks.length : 1)) {
    await page.emulateMedia({ colorScheme: look.colorScheme })
    await page.setViewportSize({ width: look.width, height: 900 })
    expect(await page.evaluate<number>(pageWidth), name).toBeLessThanOrEqual(look.width)
    expect(await violations(page, 'rules' in look ? look.rules : undefined), `${name} ${look.name}`).toEqual(
      [],
    )
    if (!keepsPictures) continue
    await mkdir(shots, { recursive: true })
    const file = `${name}-${look.name}`.replaceAll(/\W+/g, '-')
    await page.screenshot({ path: `${shots}/${file}.png`, fullPage: true })
  }
  await page.emulateMedia({ colorScheme: 'light' })
  await page.setViewportSize({ width: 1280, height: 900 })
}

/**
 * The violations on the page, by rule and element.
 *
 * @param rules by default all of WCAG 2.2 AA
 * @param within the selector of the checked part, by default the whole page
 */
export async function violations(page: Page, rules?: readonly string[], within = 'html'): Promise<string[]> {
  if (await page.evaluate<boolean>("typeof axe === 'undefined'")) await page.evaluate(axe)
  const runOnly = rules ? { type: 'rule', values: rules } : { type: 'tag', values: levels }
  const { violations: found } = await page.evaluate<AxeResults>(
    `axe.run('${within}', { runOnly: ${JSON.stringify(runOnly)}, resultTypes: ['violations'], preload: false })`,
  )
  return found.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`))
}
