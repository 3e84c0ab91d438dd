import { randomUUID } from 'node:crypto'
import type { Database } from '@licensing/database/connect'
import { closedSets } from '@licensing/proto/closed-sets'
import { expect, test } from 'vitest'
import { givenAttempt } from '../../test/attempts.ts'
import { givenDatabase } from '../../test/database.ts'
import { attemptSettings } from '../database-settings.ts'
import { deliveryTransitions, outcomeOf } from '../delivery-states.ts'
import { writeAttempts } from './attempt-queries.ts'
import { freeExpiredClaims } from './claim-queries.ts'

const time = (minute: number) => new Date(Date.UTC(2026, 0, 1, 0, minute))
const [createdAt, retryAt, endedAt, nextRetryAt] = [time(0), time(5), time(10), time(15)]

const flags = [false, true]
const cases = closedSets.deliveryStatus.flatMap((status) =>
  flags.flatMap((hasClaim) =>
    flags.flatMap((isDelivered) =>
      flags.flatMap((isReplay) =>
        flags.flatMap((isLast) =>
          (isReplay ? [1, 2] : [0, 1]).map((replaysDue) => ({
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

/** Inserts a claimed delivery with one earlier attempt. @returns the claim of the sender whose attempt is to be recorded */
async function givenDelivery(
  sql: Database,
  id: string,
  of: Pick<(typeof cases)[number], 'status' | 'hasClaim' | 'replaysDue'>,
): Promise<string> {
  const [claimId, otherId] = [randomUUID(), randomUUID()]
  await sql`
    insert into deliveries (id, account_id, application_id, endpoint_id, event_id, event_type, recorded_at, sequence,
      created_at, status, attempt_count, scheduled_attempts, replays_due, retry_at, due_at, claim_id, claimed_until)
    values (${id}, 'acct_1', 'app_1', 'whe_1', 'evt_1', 'licence.created', ${createdAt}, 1, ${createdAt}, ${of.status},
      1, 1, ${of.replaysDue}, ${retryAt}, ${retryAt}, ${of.hasClaim ? claimId : otherId}, ${time(60)})`
  return claimId
}

test('every kind of attempt changes a delivery of every status as the table of transitions says', async () => {
  await using database = await givenDatabase()
  const { sql } = database
  for (const [i, of] of cases.entries()) {
    const id = `dlv_${i}`
    const { hasClaim, isDelivered, isReplay, isLast } = of
    const claimId = await givenDelivery(sql, id, of)
    const hasRetry = !isDelivered && !isReplay && !isLast
    const given = { claimId, isReplay, isDelivered, isLast, endedAt, retryAt: hasRetry ? nextRetryAt : null }
    await writeAttempts(sql, [givenAttempt(id, given)])
    const [row] = await sql`
      select status, attempt_count, scheduled_attempts, replays_due, retry_at, due_at, claim_id is not null as is_claimed
      from deliveries where id = ${id}`
    const { to, retry } = deliveryTransitions[outcomeOf(of, hasClaim)][of.status]
    const retryThen = { cancelled: null, scheduled: nextRetryAt, unchanged: retryAt }[retry]
    const replaysAfter = of.replaysDue - Number(hasClaim && isReplay)
    const replayAt = hasClaim ? endedAt : retryAt
    expect([of, row]).toEqual([
      of,
      {
        status: to,
        attempt_count: 2,
        scheduled_attempts: 1 + Number(hasClaim && !isReplay),
        replays_due: replaysAfter,
        retry_at: retryThen,
        due_at: replaysAfter > 0 ? replayAt : retryThen,
        is_claimed: !hasClaim,
      },
    ])
  }
  expect(await sql`select from attempts`).toHaveLength(cases.length)
})

test('an acknowledged delivery is not due again when the lease of another sender ends', async () => {
  await using database = await givenDatabase()
  const { sql } = database
  await givenDelivery(sql, 'dlv_1', { status: 'pending', hasClaim: false, replaysDue: 0 })
  await writeAttempts(sql, [givenAttempt('dlv_1')])
  await sql`update deliveries set claimed_until = now() - interval '1 second'`
  expect(await sql.begin((tx) => freeExpiredClaims(tx, 10))).toBe(1)
  expect(await sql`select from waiting_endpoints`).toHaveLength(0)
  expect(await sql`select from deliveries where status = 'delivered' and due_at is null`).toHaveLength(1)
})

test('attempts are recorded by indexes also after the tables have grown since the statement was planned', async () => {
  // The session is the only one, so that it plans the statement while the tables are empty.
  await using database = await givenDatabase({ max: 1, settings: attemptSettings })
  const { sql } = database
  await sql`analyze deliveries`
  await sql`analyze waiting_endpoints`
  const of = { status: 'pending', hasClaim: true, replaysDue: 0 } as const
  const record = async (id: string) => {
    const claimId = await givenDelivery(sql, id, of)
    return sql.begin(async (tx) => {
      const failed = givenAttempt(id, { claimId, isDelivered: false, retryAt: nextRetryAt })
      expect(await writeAttempts(tx, [failed])).toHaveLength(1)
      const [counted] = await tx<{ read: number; other: number }[]>`
        select (seq_tup_read + idx_tup_fetch)::int as read, (
          pg_stat_get_xact_numscans('deliveries_of_type'::regclass)
          + pg_stat_get_xact_numscans('deliveries_of_status'::regclass)
        )::int as other
        from pg_stat_xact_user_tables where relname = 'deliveries'`
      return counted!
    })
  }
  for (let n = 1; n <= 10; n += 1) await record(`dlv_before_${n}`)
  await sql`
    insert into deliveries (id, account_id, application_id, endpoint_id, event_id, event_type, recorded_at, sequence,
      created_at, status, attempt_count)
    select 'dlv_' || number, account_id, application_id, endpoint_id, event_id, event_type, recorded_at, sequence,
      created_at, status, attempt_count
    from (select * from deliveries limit 1) one cross join generate_series(1, 30000) as number`
  const { read, other } = await record('dlv_after')
  // A plan for an empty table reads all 30,000 rows.
  expect(read).toBeGreaterThan(0)
  expect(read).toBeLessThan(100)
  // With these indexes PostgreSQL would have to read all deliveries of the application to find one.
  expect(other).toBe(0)
})
