import { ensureBuilt } from '@licensing/portal/build'
import type { Stack } from '@licensing/test-support/stack-shape'
import { existsSync } from 'node:fs'
import { chromium } from 'playwright-core'
import { median, under } from '../report.ts'
import type { Figure } from '../report.ts'

const program = process.env['CHROMIUM'] ?? '/usr/bin/chromium'
const flags = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-sync']
const rounds = 9
const mostMs = 1_000

/** From the click on "Licences" in the portal to the first rows; nothing where there is no Chromium. */
export async function portal({ gatewayUrl, apiKey, appId }: Stack): Promise<Figure[]> {
  if (!existsSync(program)) return []
  await ensureBuilt((line) => process.stderr.write(`${line}\n`))
  const browser = await chromium.launch({ executablePath: program, args: flags })
  const page = await browser.newPage()
  const times: number[] = []
  try {
    const signedIn = await page.request.post(`${gatewayUrl}/portal/session`, {
      data: { key: apiKey },
      headers: { 'x-requested-with': 'portal' },
    })
    if (signedIn.status() !== 204) throw new Error(`signing in was answered ${signedIn.status()}`)
    for (let round = 0; round < rounds; round += 1) {
      await page.goto(`${gatewayUrl}/portal?app=${appId}`)
      await page.getByRole('region', { name: 'Alerts' }).waitFor()
      const startedMs = performance.now()
      await page.getByRole('link', { name: 'Licences', exact: true }).click()
      await page.getByRole('table', { name: 'Licences' }).getByRole('row').nth(5).waitFor()
      times.push(performance.now() - startedMs)
    }
  } finally {
    await browser.close()
  }
  return [
    under('portal: first rows of the licences after the click', median(times), 'ms', mostMs),
    { name: 'portal: the slowest of them', value: Math.max(...times), unit: 'ms' },
  ]
}
