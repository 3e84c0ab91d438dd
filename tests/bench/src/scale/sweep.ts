import type { Database } from '@licensing/database/connect'
import { eventually } from '@licensing/test-support/poll'
import { scaled } from '../bench-scale.ts'
import { beside, over } from '../report.ts'
import type { Figure } from '../report.ts'
import type { Population } from './population.ts'

/** Makes a tenth of all licences due at once. The time is from the first batch to the commit of the last batch. */
export async function sweep(sql: Database, { commonPlan, duePlan }: Population): Promise<Figure[]> {
  const bare = await bareUpdates(sql, commonPlan)
  const fallen = await sql`
    update licences set expires_on = now() - interval '1 second' where plan_id = ${duePlan} and status = 'active'`
  await eventually(
    async () => {
      const left = await sql`
        select 1 from licence_statuses
        where expires_on <= now() and status in ('active', 'suspended', 'downgraded') limit 1`
      return left.length === 0
    },
    { timeoutMs: 300_000, intervalMs: 100 },
  )
  const doneMs = Date.now()
  const [row] = await sql<{ first: Date; swept: number }[]>`
    select min(h.at) as first, count(*)::int as swept from licence_history h
    join licences l on l.id = h.licence_id where l.plan_id = ${duePlan} and h.type = 'expired'`
  const perSecond = (row!.swept * 1000) / (doneMs - row!.first.getTime())
  return [
    bare,
    over(`sweep of ${fallen.count} due licences`, perSecond, '/s', 10_000),
    beside('sweep, while its events are published', perSecond, '/s', bare),
    {
      name: 'sweep: licences left out or swept twice',
      value: Math.abs(row!.swept - fallen.count),
      unit: 'licences',
    },
  ]
}

class Undone extends Error {}

/** Only the update, in one statement that is rolled back: the cost of rows and indexes without history and events. */
async function bareUpdates(sql: Database, planId: string): Promise<Figure> {
  const count = scaled(20_000, 100)
  let seconds = Number.NaN
  try {
    await sql.begin(async (tx) => {
      const startedMs = performance.now()
      await tx`
        update licences set status = 'expired', updated_at = now()
        where id in (
          select id from licences where plan_id = ${planId} and status = 'active' order by id limit ${count}
        )`
      seconds = (performance.now() - startedMs) / 1000
      throw new Undone()
    })
  } catch (error) {
    if (!(error instanceof Undone)) throw error
  }
  return { name: `bare update of ${count} licences, one statement`, value: count / seconds, unit: '/s' }
}
