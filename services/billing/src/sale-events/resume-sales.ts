import type { BillingDeps } from '../deps.ts'
import { startLoop } from '../loop.ts'
import type { Loop } from '../loop.ts'
import { recordSale } from './record-sale-event.ts'
import { claimSaleIntent } from './sale-intent-queries.ts'

const pollMs = 1_000

/** Records sales that were begun and not finished: their licence may be there already. */
export function startResumedSales(deps: BillingDeps): Loop {
  return startLoop('resumed sales', deps.log, async () => {
    const sale = await claimSaleIntent(deps.sql)
    if (!sale) return pollMs
    await recordSale(deps, sale)
    return 0
  })
}
