import type { Sql } from '@licensing/database/connect'
import { eventually } from '@licensing/test-support/poll'
import { over } from '../report.ts'
import type { Figure } from '../report.ts'
import type { Population } from './population.ts'

/** Lets a tenth of all licences fall due at once. The first batch starts the clock, the last one's commit stops it. */
export async function sweep(sql: Sql, { duePlan }: Population): Promise<Figure[]> {
  const fallen = await sql`
    update licences set expires_on = now() - interval '1 second' where plan_id = ${duePlan} and status = 'active'`
  await eventually(
    async () => {
      const left = await sql`
        select 1 from licences where expires_on <= now() and status in ('active', 'suspended', 'downgraded') limit 1`
      return left.length === 0
    },
    { timeoutMs: 300_000, intervalMs: 20 },
  )
  const doneMs = Date.now()
  const [row] = await sql<{ first: Date; swept: number }[]>`
    select min(h.at) as first, count(*)::int as swept from licence_history h
    join licences l on l.id = h.licence_id where l.plan_id = ${duePlan} and h.type = 'expired'`
  const perSecond = (row!.swept * 1000) / (doneMs - row!.first.getTime())
  return [
    over(`sweep of ${fallen.count} due licences`, perSecond, '/s', 10_000),
    {
      name: 'sweep: licences left out or swept twice',
      value: Math.abs(row!.swept - fallen.count),
      unit: 'licences',
    },
  ]
}
