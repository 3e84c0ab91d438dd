import type { Database } from '@licensing/database/connect'
import { eventually } from '@licensing/test-support/poll'
import { expect } from 'vitest'

/** Expects that the counts of applications and endpoints equal the deliveries and attempts. Only for tests without replays. */
export async function expectExactCounts(sql: Database): Promise<void> {
  await eventually(
    async () => {
      const [written] = await sql<{ delivered: number; failed: number }[]>`
        select (select count(*)::int from deliveries where status = 'delivered') as delivered,
          (select count(*)::int from attempts where response_code is null or response_code not between 200 and 299)
            as failed`
      for (const step of ['day', 'hour']) {
        const [counted] = await sql<{ delivered: number; failed: number; timed: number }[]>`
          select coalesce(sum(delivered), 0)::int as delivered, coalesce(sum(failed_attempts), 0)::int as failed,
            coalesce(sum((select sum(entry) from unnest(latency_counts) as entry)), 0)::int as timed
          from delivery_counts where step = ${step}`
        expect(counted).toEqual({ ...written, timed: written!.delivered })
      }
      const pending = await sql`
        select e.id, coalesce(h.pending, 0)::int - (
          select count(*)::int from deliveries d where d.endpoint_id = e.id and d.status = 'pending'
        ) as difference
        from endpoints e left join endpoint_health h on h.endpoint_id = e.id where e.status = 'enabled'`
      expect(pending.filter(({ difference }) => difference !== 0)).toEqual([])
    },
    { intervalMs: 200 },
  )
}
