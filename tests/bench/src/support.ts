import { connect } from '@licensing/database/connect'
import { scaled } from './bench-scale.ts'
import type { Section } from './report.ts'
import { givenPopulation } from './scale/population.ts'
import { startSetting } from './setting.ts'
import { lists, searchAndMetrics } from './support/finding.ts'
import { givenActivations, givenDeliveries, givenSales } from './support/history.ts'
import type { History } from './support/history.ts'
import { portal } from './support/portal.ts'
import { recovery } from './support/recovery.ts'

/** What support people do all day, on 1,000,000 licences and 10,000,000 deliveries. */
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
