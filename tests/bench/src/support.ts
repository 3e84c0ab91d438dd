import { existsSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { connect } from '@licensing/database/connect'
import { ensureBuilt } from '@licensing/portal/build'
import type { Stack } from '@licensing/test-support/stack-shape'
import { chromium } from 'playwright-core'
import { givenPastEvents } from '../../../services/notifier/test/past-events.ts'
import { scaled } from './bench-scale.ts'
import { startTestBed, type TestBed } from './notifier/test-bed.ts'
import { ours } from './notifier/deliveries-per-cpu-second.ts'
import { atLeast, median, under, type Figure, type Section } from './report.ts'
import { givenPopulation } from './scale/population.ts'
import { startSetting } from './setting.ts'
import { lists, searchAndMetrics } from './support/finding.ts'
import { givenActivations, givenDeliveries, givenSales, type History } from './support/history.ts'

/** The usual requests of support staff, on 1,000,000 licences and 10,000,000 deliveries. */
export async function support(): Promise<Section> {
  const startedMs = performance.now()
  const startedAt = Date.now()
  await using setting = await startSetting()
  const { stack } = setting
  const open = (url: string) => connect(url, { name: 'bench', max: 4, statementTimeoutMs: 3_600_000 })
  const [licensing, billing, notifier] = (['licensing', 'billing', 'notifier'] as const).map((name) =>
    open(stack.databaseUrls[name]),
  ) as [ReturnType<typeof open>, ReturnType<typeof open>, ReturnType<typeof open>]
  const people = await givenPopulation(stack, licensing, scaled(1_000_000, 1_000))
  const deliveries = scaled(10_000_000, 10_000)
  const history: History = {
    sales: people.count,
    deliveries,
    lastMs: startedAt,
    middle: new Date(startedAt - (deliveries / 2) * 250).toISOString(),
  }
  await givenActivations(stack, licensing, people)
  await givenSales(stack, billing, history, people.commonPlan)
  await givenDeliveries(stack, notifier, history, people.count)
  const seconds = (performance.now() - startedMs) / 1000

  const get = async (path: string) => {
    const answer = await stack.api.get(path)
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
  }
  const found = await searchAndMetrics(get, stack.appId, people, history, scaled(300, 5))
  const listed = await lists(get, stack.appId, history, scaled(60, 5))
  const shown = await portal(stack)
  await Promise.all([licensing.end(), billing.end(), notifier.end()])
  const recovered = await recovery()
  return {
    title: `Support: ${people.count.toLocaleString('en')} licences, ${deliveries.toLocaleString('en')} deliveries`,
    figures: [...found, ...listed, ...shown, ...recovered],
    notes: [`put in within ${seconds.toFixed(0)} s`],
  }
}

const program = process.env['CHROMIUM'] ?? '/usr/bin/chromium'
const flags = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-sync']
const rounds = 9
const maxMs = 1_000

/** Time from the click on "Licences" in the portal to the first rows; skipped without Chromium. */
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
    if (signedIn.status() !== 204) throw new Error(`the sign-in was answered with ${signedIn.status()}`)
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
    under('portal: first rows of the licences after the click', median(times), 'ms', maxMs),
    { name: 'portal: the slowest of them', value: Math.max(...times), unit: 'ms' },
  ]
}

const goal = 0.9

/** Recovery of 100,000 events to a new endpoint, compared with the notifier's rate for new events. */
export async function recovery(): Promise<Figure[]> {
  await using bed = await startTestBed()
  const usually = await ours(bed, scaled(20_000, 500))
  const count = scaled(100_000, 1_000)
  const vendor = await bed.givenVendor(0, [])
  const { accountId, applicationId } = vendor
  const of = { accountId, applicationId }
  await givenPastEvents(bed.sql, of, count)
  const { endpoint } = await bed.calls.createEndpoint({
    ...of,
    fields: { url: bed.url('/recovered'), subscribedEvents: '*' },
  })
  const before = await attempts(bed)
  const startedMs = performance.now()
  const since = timestampFromDate(new Date(Date.now() - 86_400_000))
  const answer = await bed.calls.recoverEndpoint(
    { ...of, endpointId: endpoint!.id, since },
    { timeoutMs: 120_000 },
  )
  const answeredMs = performance.now()
  if (Number(answer.deliveries) !== count) throw new Error(`${answer.deliveries} deliveries of ${count}`)
  while ((await attempts(bed)) < before + count) await pause(100)
  const perSecond = (count * 1000) / (performance.now() - startedMs)
  const usual: Figure = {
    name: 'deliveries of events as they happen',
    value: usually.deliveries / usually.seconds,
    unit: '/s',
  }
  return [
    usual,
    atLeast(`recovery of ${count} events, from the call to the last attempt`, perSecond, '/s', usual, goal),
    { name: 'recovery: the call itself', value: (answeredMs - startedMs) / 1000, unit: 's' },
  ]
}

async function attempts({ sql }: TestBed): Promise<number> {
  const [row] = await sql<{ count: number }[]>`select count(*)::int as count from attempts`
  return row!.count
}
