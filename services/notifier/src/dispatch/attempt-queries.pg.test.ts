import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { startTestNotifier } from '../testing/notifier.ts'

test('results are written by indexes also after the tables have grown since that was planned', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver })
  const { sql } = notifier
  await notifier.register(receiver.url('/well'))
  // The worst time for a plan that is kept: PostgreSQL knows that there is nothing.
  await sql`analyze deliveries`
  await sql`analyze waiting_endpoints`
  const deliver = async (count: number) => {
    const before = receiver.requests.length
    for (let n = 1; n <= count; n += 1) {
      await notifier.happen()
      await eventually(() => receiver.requests.length === before + n, { intervalMs: 5 })
    }
    await eventually(async () => (await sql`select from attempts`).count === receiver.requests.length)
  }
  await deliver(10)
  await sql`
    insert into deliveries (id, account_id, application_id, endpoint_id, event_id, event_type, recorded_at, sequence,
      created_at, status, attempt_count)
    select 'dlv_' || number, account_id, application_id, endpoint_id, event_id, event_type, recorded_at, sequence,
      created_at, status, attempt_count
    from (select * from deliveries limit 1) one cross join generate_series(1, 30000) as number`
  const counted = async () => {
    const [row] = await sql<{ written: number; read: number }[]>`
      select n_tup_upd::float8 as written, (seq_tup_read + (
        select sum(idx_tup_read) from pg_stat_user_indexes where relname = 'deliveries'
      ))::float8 as read
      from pg_stat_user_tables where relname = 'deliveries'`
    return row!
  }
  // What a connection has counted is seen some seconds later.
  const once = (written: number) =>
    eventually(
      async () => {
        const now = await counted()
        expect(now.written).toBe(written)
        return now
      },
      { timeoutMs: 30_000 },
    )
  const before = await once(10)
  await deliver(10)
  const after = await once(20)
  // A plan for an empty table reads all 30,000 for each result.
  expect(after.read - before.read).toBeLessThan(30_000)
})
