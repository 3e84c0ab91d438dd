import { consumersOf, sources } from '@licensing/proto/event-streams'
import type { Outcome } from '../outcome.ts'
import type { Databases } from './databases.ts'
import { countOutbox, countUnhandled, listNumbers, listPositions } from './queries.ts'

/** Work that is still pending. Deliveries to a dead endpoint do not count. */
export async function unsettled(databases: Databases): Promise<string[]> {
  const found: string[] = []
  const add = (name: string, count: number) => void (count > 0 && found.push(`${name}: ${count}`))
  for (const service of ['catalog', 'licensing', 'billing'] as const) {
    const { name, count } = await countOutbox(databases.of[service], service)
    add(name, count)
  }
  for (const { name, count } of await countUnhandled(databases.of.billing)) add(name, count)
  for (const { consumer, behind } of await readLags(databases)) add(consumer, behind)
  const [pending] = await databases.of.notifier<{ count: number }[]>`
    select count(*)::float8 as count from deliveries d
    where status = 'pending' and exists (
      select 1 from endpoints e where e.id = d.endpoint_id and e.url not like '%/dead/%'
    )`
  add('deliveries pending', pending!.count)
  return found
}

/** How many events each consumer has not read, by partition of each log. */
export async function readLags(databases: Databases): Promise<Outcome['lags']> {
  const lags: Outcome['lags'] = []
  for (const source of sources) {
    const newest = await listNumbers(databases.of[source])
    for (const consumer of consumersOf[source]) {
      for (const { partition, number } of await listPositions(databases.of[consumer], source)) {
        lags.push({ consumer: `${consumer} of ${source} ${partition}`, behind: newest[partition]! - number })
      }
    }
  }
  return lags
}
