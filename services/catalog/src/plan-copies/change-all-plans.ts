import type { Transaction } from '@licensing/database/connect'
import type { CatalogDependencies } from '../dependencies.ts'
import { announceVersions } from './announce.ts'
import type { Announcement } from './announce.ts'
import { copiesOfApplication, raiseVersions } from './plan-copy-queries.ts'
import { toPlanCopy } from './plan-copy.ts'
import { push } from './push.ts'

// Bounds what is in memory at once: a copy has up to 2,000 entitlements.
const batchSize = 50

/** After a change of a definition, under the application's lock: every plan gets a new version, published in events. */
export async function changeAllPlans(tx: Transaction, of: Announcement): Promise<void> {
  await announceVersions(tx, of, await raiseVersions(tx, of.applicationId))
}

/** Hands all plans of an application to licensing as they stand now. */
export async function pushPlansOf(deps: CatalogDependencies, applicationId: string): Promise<void> {
  let afterId = ''
  for (;;) {
    const rows = await copiesOfApplication(deps.sql, applicationId, afterId, batchSize)
    if (rows.length === 0) return
    await push(deps, rows.map(toPlanCopy))
    afterId = rows.at(-1)!.id
  }
}
