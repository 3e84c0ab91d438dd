import type { Sql } from '@licensing/database/connect'
import { sendAlong } from '@licensing/database/transaction'
import type { ServedKey } from '@licensing/grpc/call-context'
import { quotaValue } from '@licensing/quotas/quota-queries'

export interface AnswerRecord {
  body_hash: Buffer
  answer: Buffer
  is_finished: boolean
}

// How long a repetition gets the recorded answer (decisions, section 1).
const retention = '24 hours'

/** Limits the wait for each lock, until the transaction ends. */
export async function setLockTimeout(tx: Sql, milliseconds: number): Promise<void> {
  await sendAlong(tx, tx`select set_config('lock_timeout', ${String(milliseconds)}, true)`)
}

/**
 * Inserts the record of a key in the transaction of the change. If another transaction is inserting it, waits for its end.
 *
 * @param waitMs longest wait for any lock of the transaction from here on, in milliseconds
 * @returns false if a call in the last 24 hours used the key
 */
export async function claimKey(tx: Sql, record: ServedKey, waitMs: number): Promise<boolean> {
  const { accountId, path, key, bodyHash } = record
  const claimed = await tx`
    insert into idempotency_keys as held (account_id, path, key, body_hash)
    select ${accountId}, ${path}, ${key}, ${Buffer.from(bodyHash)}::bytea
    where set_config('lock_timeout', least(${waitMs}::int, coalesce(
        nullif((extract(epoch from current_setting('lock_timeout')::interval) * 1000)::int, 0), ${waitMs}::int
      ))::text, true) is not null
    on conflict (account_id, path, key) do update
    set body_hash = excluded.body_hash, answer = null, is_finished = false, created_at = now()
    where held.created_at <= now() - ${retention}::interval
    returning true`
  return claimed.count === 1
}

/** The answer recorded for this key in the last 24 hours. */
export async function findRecord(sql: Sql, record: ServedKey): Promise<AnswerRecord | undefined> {
  const { accountId, path, key } = record
  const [row] = await sql<AnswerRecord[]>`
    select body_hash, answer, is_finished from idempotency_keys
    where account_id = ${accountId} and path = ${path} and key = ${key}
      and created_at > now() - ${retention}::interval`
  return row
}

// Size of a record's other columns and its index entries.
const bytesBesideAnswer = 512

/** Records an answer. A finished answer is not changed. */
export async function recordAnswer(
  sql: Sql,
  { accountId, path, key }: ServedKey,
  kept: { answer: Uint8Array; isFinished: boolean },
): Promise<void> {
  await sql`
    with kept as (
      update idempotency_keys set answer = ${Buffer.from(kept.answer)}, is_finished = ${kept.isFinished}
      where account_id = ${accountId} and path = ${path} and key = ${key} and not is_finished
      returning account_id
    )
    insert into idempotency_usage as u (account_id, hour, shard, bytes)
    select account_id, date_trunc('hour', now()), pg_backend_pid() % 8, ${kept.answer.length + bytesBesideAnswer}::int
    from kept
    on conflict (account_id, hour, shard) do update set bytes = u.bytes + excluded.bytes`
}

/** The bytes that an account's recorded answers take, and its quota. */
export async function findUsage(sql: Sql, accountId: string): Promise<{ used: bigint; quota: bigint }> {
  const [row] = await sql<{ used: bigint; quota: bigint }[]>`
    select coalesce(sum(bytes), 0)::bigint as used, ${quotaValue(sql, accountId, 'idempotency_bytes')} as quota
    from idempotency_usage where account_id = ${accountId} and hour > now() - ${retention}::interval - interval '1 hour'`
  return row!
}

/** Deletes the record of a key, unless its answer is finished. */
export async function deleteRecord(sql: Sql, { accountId, path, key }: ServedKey): Promise<void> {
  await sql`
    delete from idempotency_keys
    where account_id = ${accountId} and path = ${path} and key = ${key} and not is_finished`
}

/** Deletes records older than 24 hours. @returns how many; if it is `limit`, there may be more */
export async function deleteOldRecords(sql: Sql, limit: number): Promise<number> {
  const deleted = await sql`
    delete from idempotency_keys
    where ctid = any(array(
      select ctid from idempotency_keys where created_at <= now() - ${retention}::interval
      order by created_at limit ${limit} for update skip locked
    ))`
  await sql`delete from idempotency_usage where hour <= now() - ${retention}::interval - interval '1 hour'`
  return deleted.count
}
