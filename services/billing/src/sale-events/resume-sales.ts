import type { Loop } from '@licensing/process/loop'
import type { BillingDependencies } from '../dependencies.ts'
import { startRounds } from '../start-rounds.ts'
import { recordSale } from './record-sale-event.ts'
import { claimSaleIntent } from './sale-intent-queries.ts'

const pollMs = 1_000
const idleMs = 5_000

/** Records sales that an earlier release began and did not finish: their licence may be there already. */
export function startResumedSales(deps: BillingDependencies): Loop {
  const recordNext = async () => {
    const sale = await claimSaleIntent(deps.sql)
    if (!sale) return 'idle'
    await recordSale(deps, sale)
    return 0
  }
  return startRounds('resumed sales', deps.log, pollMs, recordNext, idleMs)
}
