import type { Sql, Transaction } from '@licensing/database/connect'
import type { CatalogDependencies } from '../dependencies.ts'
import { announce, announceVersions } from './announce.ts'
import type { Announcement } from './announce.ts'
import { copiesOfApplication, raiseVersions } from './plan-copy-queries.ts'
import { toPlanCopy } from './plan-copy.ts'
import { push } from './push.ts'
import type { PlanCopy } from '@licensing/proto/catalog'

// Bounds what is in memory at once: a copy has up to 2,000 entitlements.
const batchSize = 50

/** After a change of a definition, under the application's lock: every plan gets a new version, published in events. */
export async function changeAllPlans(tx: Transaction, of: Announcement): Promise<void> {
  const versions = await raiseVersions(tx, of.applicationId)
  if (of.planEvents === 'versions') return announceVersions(tx, of, versions)
  for await (const copies of batches(tx, of.applicationId)) await announce(tx, of, copies)
}

/** Hands all plans of an application to licensing as they stand now. */
export async function pushPlansOf(deps: CatalogDependencies, applicationId: string): Promise<void> {
  for await (const copies of batches(deps.sql, applicationId)) await push(deps, copies)
}

async function* batches(sql: Sql, applicationId: string): AsyncGenerator<PlanCopy[]> {
  let afterId = ''
  for (;;) {
    const rows = await copiesOfApplication(sql, applicationId, afterId, batchSize)
    if (rows.length === 0) return
    yield rows.map(toPlanCopy)
    afterId = rows.at(-1)!.id
  }
}
