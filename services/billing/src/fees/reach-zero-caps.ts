import type { BillingDependencies } from '../dependencies.ts'
import { findZeroCapsUnreached } from './cap-queries.ts'
import { periodOf } from './fee.ts'
import { latestChargedApplication } from './ledger-queries.ts'
import { reachCaps } from './post-entries.ts'
import { oldestApplication } from './set-spend-cap.ts'

const together = 50

/** A cap of nothing is reached with the first instant of each period. */
export async function reachZeroCaps(deps: BillingDependencies): Promise<void> {
  const period = periodOf(new Date())
  for (const accountId of await findZeroCapsUnreached(deps.sql, period, together)) {
    const charged = await latestChargedApplication(deps.sql, accountId, period)
    const applicationId = charged ?? (await oldestApplication(deps, accountId))
    await deps.change((tx) =>
      reachCaps(tx, [{ accountId, applicationId, period, capMinor: 0n, spentMinor: 0n }]),
    )
  }
}
