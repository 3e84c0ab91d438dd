import type { Databases } from './databases.ts'
import { countOutbox, countUnhandled } from './other-queries.ts'
import { readLags } from './lags.ts'

/** What is still on its way: empty when all is quiet. A dead endpoint's deliveries are not waited for. */
export async function unsettled(databases: Databases): Promise<string[]> {
  const found: string[] = []
  const add = (name: string, count: number) => void (count > 0 && found.push(`${name}: ${count}`))
  for (const service of ['catalog', 'licensing', 'billing'] as const) {
    const { name, count } = await countOutbox(databases.of[service], service)
    add(name, count)
  }
  for (const { name, count } of await countUnhandled(databases.of.billing)) add(name, count)
  for (const { consumer, behind } of await readLags(databases)) add(consumer, behind)
  const [deferred] = await databases.of.notifier<{ count: number }[]>`
    select count(*)::float8 as count from deferred_events`
  add('events in line', deferred!.count)
  const [pending] = await databases.of.notifier<{ count: number }[]>`
    select count(*)::float8 as count from deliveries d
    where status = 'pending' and exists (
      select 1 from endpoints e where e.id = d.endpoint_id and e.url not like '%/dead/%'
    )`
  add('deliveries pending', pending!.count)
  return found
}
