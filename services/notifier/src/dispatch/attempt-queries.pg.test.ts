import { randomUUID } from 'node:crypto'
import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { closedSets } from '@licensing/proto/closed-sets'
import type { DeliveryStatus } from '@licensing/proto/closed-sets'
import { createTestDatabase } from '@licensing/test-support/database'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { deliveryTransitions, outcomeOf } from '../deliveries/delivery-states.ts'
import { notifierMigrations } from '../migrations.ts'
import { startTestNotifier } from '../../test/notifier.ts'
import { writeAttempts } from './attempt-queries.ts'
import type { FinishedAttempt } from './attempt-queries.ts'
import { freeExpiredClaims } from './claim-queries.ts'

const time = (minute: number) => new Date(Date.UTC(2026, 0, 1, 0, minute))
const [createdAt, retryAt, endedAt, nextRetryAt] = [time(0), time(5), time(10), time(15)]

interface Case {
  status: DeliveryStatus
  hasClaim: boolean
  isDelivered: boolean
  isReplay: boolean
  isLast: boolean
  replaysDue: number
}

const flags = [false, true]
const cases = closedSets.deliveryStatus.flatMap((status) =>
  flags.flatMap((hasClaim) =>
    flags.flatMap((isDelivered) =>
      flags.flatMap((isReplay) =>
        flags.flatMap((isLast) =>
          (isReplay ? [1, 2] : [0, 1]).map((replaysDue): Case => ({
            status,
            hasClaim,
            isDelivered,
            isReplay,
            isLast,
            replaysDue,
          })),
        ),
      ),
    ),
  ),
)

const acknowledged = (deliveryId: string): FinishedAttempt => ({
  applicationId: 'app_1',
  deliveryId,
  endpointId: 'whe_1',
  claimId: randomUUID(),
  isReplay: false,
  at: time(9),
  endedAt,
  durationMs: 1,
  isDelivered: true,
  responseCode: 200,
  error: null,
  responseExcerpt: null,
  retryAt: null,
  attempt: 2,
  isLast: false,
  latencyMs: 1,
})

/** Inserts a claimed delivery with one earlier attempt. @returns the claim of the sender whose attempt is to be recorded */
async function givenDelivery(sql: Database, id: string, of: Case): Promise<string> {
  const [claimId, otherId] = [randomUUID(), randomUUID()]
  await sql`
    insert into deliveries (id, account_id, application_id, endpoint_id, event_id, event_type, recorded_at, sequence,
      created_at, status, attempt_count, scheduled_attempts, replays_due, retry_at, due_at, claim_id, claimed_until)
    values (${id}, 'acct_1', 'app_1', 'whe_1', 'evt_1', 'licence.created', ${createdAt}, 1, ${createdAt}, ${of.status},
      1, 1, ${of.replaysDue}, ${retryAt}, ${retryAt}, ${of.hasClaim ? claimId : otherId}, ${time(60)})`
  return claimId
}

test('every kind of attempt changes a delivery of every status as the table of transitions says', async () => {
  await using database = await createTestDatabase()
  await using ending = new AsyncDisposableStack()
  const sql = connect(database.url, { name: 'test' })
  ending.defer(() => sql.end({ timeout: 5 }))
  await migrate(sql, notifierMigrations)
  for (const [i, of] of cases.entries()) {
    const id = `dlv_${i}`
    const { hasClaim, isDelivered, isReplay, isLast } = of
    const claimId = await givenDelivery(sql, id, of)
    const responseCode = isDelivered ? 200 : 500
    const hasRetry = !isDelivered && !isReplay && !isLast
    await writeAttempts(sql, [
      {
        ...acknowledged(id),
        claimId,
        isReplay,
        isDelivered,
        isLast,
        responseCode,
        retryAt: hasRetry ? nextRetryAt : null,
      },
    ])
    const [row] = await sql`
      select status, attempt_count, scheduled_attempts, replays_due, retry_at, due_at, claim_id is not null as is_claimed
      from deliveries where id = ${id}`
    const { to, retry } = deliveryTransitions[outcomeOf(of, hasClaim)][of.status]
    const retryAfter = { cancelled: null, scheduled: nextRetryAt, unchanged: retryAt }[retry]
    const replaysAfter = of.replaysDue - Number(hasClaim && isReplay)
    const replayAt = hasClaim ? endedAt : retryAt
    expect([of, row]).toEqual([
      of,
      {
        status: to,
        attempt_count: 2,
        scheduled_attempts: 1 + Number(hasClaim && !isReplay),
        replays_due: replaysAfter,
        retry_at: retryAfter,
        due_at: replaysAfter > 0 ? replayAt : retryAfter,
        is_claimed: !hasClaim,
      },
    ])
  }
  expect(await sql`select from attempts`).toHaveLength(cases.length)
})

test('an acknowledged delivery is not due again when the lease of another sender ends', async () => {
  await using database = await createTestDatabase()
  await using ending = new AsyncDisposableStack()
  const sql = connect(database.url, { name: 'test' })
  ending.defer(() => sql.end({ timeout: 5 }))
  await migrate(sql, notifierMigrations)
  const of = {
    status: 'pending',
    hasClaim: false,
    isDelivered: true,
    isReplay: false,
    isLast: false,
  } as const
  await givenDelivery(sql, 'dlv_1', { ...of, replaysDue: 0 })
  await writeAttempts(sql, [acknowledged('dlv_1')])
  await sql`update deliveries set claimed_until = now() - interval '1 second'`
  expect(await sql.begin((tx) => freeExpiredClaims(tx, 10))).toBe(1)
  expect(await sql`select from waiting_endpoints`).toHaveLength(0)
  expect(await sql`select from deliveries where status = 'delivered' and due_at is null`).toHaveLength(1)
})

test('attempts are recorded by indexes also after the tables have grown since the statement was planned', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver })
  const { sql } = notifier
  await notifier.register(receiver.url('/well'))
  // A plan that is made now is the worst one to keep: PostgreSQL knows that the table is empty.
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
    const [row] = await sql<{ written: number; read: number; other: number }[]>`
      select n_tup_upd::float8 as written, (seq_tup_read + (
        select sum(idx_tup_read) from pg_stat_user_indexes where relname = 'deliveries'
      ))::float8 as read, (
        select sum(idx_scan)::float8 from pg_stat_user_indexes
        where indexrelname in ('deliveries_of_type', 'deliveries_of_status')
      ) as other
      from pg_stat_user_tables where relname = 'deliveries'`
    return row!
  }
  // PostgreSQL shows the counts of a connection some seconds later.
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
  // A plan for an empty table reads all 30,000 rows for each result.
  expect(after.read - before.read).toBeLessThan(30_000)
  // With these indexes PostgreSQL would have to read all deliveries of the application to find one.
  expect(after.other - before.other).toBe(0)
})
