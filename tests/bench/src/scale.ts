import { connect } from '@licensing/database/connect'
import { scaled } from './bench-scale.ts'
import type { Section } from './report.ts'
import { archive } from './scale/archive.ts'
import { imports } from './scale/imports.ts'
import { listsAndCounts } from './scale/lists.ts'
import { givenPopulation } from './scale/population.ts'
import { sweep } from './scale/sweep.ts'
import { startSetting, watchMemory } from './setting.ts'

/** A vendor with 1,000,000 licences. */
export async function scale(): Promise<Section> {
  await using setting = await startSetting({ environment: { SWEEP_INTERVAL_SECONDS: '1' } })
  const { stack } = setting
  using memory = watchMemory(stack)
  const options = { name: 'bench', max: 4, statementTimeoutMs: 600_000 }
  const licensing = connect(stack.databaseUrls.licensing, options)
  const notifier = connect(stack.databaseUrls.notifier, options)
  const startedMs = performance.now()
  const people = await givenPopulation(stack, licensing, scaled(1_000_000, 1_000))
  const seconds = (performance.now() - startedMs) / 1000

  const get = async (path: string) => {
    const answer = await stack.api.get(path)
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
  }
  const lists = await listsAndCounts(get, stack.appId, people, scaled(100, 5))
  const archived = await archive(stack, licensing, notifier, people)
  const swept = await sweep(licensing, people)
  const imported = await imports(stack, people)
  await Promise.all([licensing.end(), notifier.end()])
  return {
    title: `A vendor with ${people.count.toLocaleString('en')} licences`,
    figures: [...lists, ...archived.figures, ...swept, ...imported, ...memory.figures()],
    notes: [`put in within ${seconds.toFixed(0)} s`, ...archived.notes],
  }
}
