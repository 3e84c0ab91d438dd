import { consumersOf, sources } from '@licensing/proto/event-streams'
import type { Outcome } from '../outcome.ts'
import type { Databases } from './databases.ts'
import { listNumbers, listPositions } from './other-queries.ts'

/** How far each consumer is behind the newest number of each partition of a log. */
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
