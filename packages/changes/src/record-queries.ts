import type { Sql, Statement } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'
import { sendAlong } from '@licensing/database/transaction'
import type { ServedKey } from '@licensing/grpc/call-context'
import { quotaValue } from '@licensing/quotas/quota-queries'

export interface AnswerRecord {
  body_hash: Buffer
  answer: Buffer
  is_finished: boolean
}

/** The record of a key in the last 24 hours, and the bytes that all recorded answers of its account take. */
export type FoundKey = (AnswerRecord | { body_hash: null }) & { used: bigint; quota: bigint }

/** An answer to record. */
export interface NewRecord {
  key: ServedKey
  answer: Uint8Array
  isFinished: boolean
}

// How long a repetition gets the recorded answer (docs/guides/concepts.md, "Guarantees").
const retention = '24 hours'

/** Limits the wait for each lock, until the transaction ends. */
export async function setLockTimeout(tx: Sql, milliseconds: number): Promise<void> {
  await sendAlong(tx, tx`select set_config('lock_timeout', ${String(milliseconds)}, true)`)
}

const nameOf = ({ accountId, path, key }: ServedKey) => `${accountId} ${path} ${key}`

const keyColumns = { account_id: 'text', path: 'text', key: 'text' } as const
const recordColumns = { ...keyColumns, body_hash: 'bytea', answer: 'bytea', is_finished: 'boolean' } as const

const keyRow = ({ accountId, path, key }: ServedKey) => ({ account_id: accountId, path, key })

/** Lets one transaction at a time use a key. If another one does, waits for its end. */
export function lockKey(tx: Sql, key: ServedKey): Statement {
  return tx`select pg_advisory_xact_lock(hashtextextended(${nameOf(key)}, 0))`
}

/** Like `lockKey`, without waiting. @returns for each key whether this transaction may use it */
export function tryLockKeys(tx: Sql, keys: ServedKey[]): Statement<{ is_locked: boolean }> {
  return tx<{ is_locked: boolean }[]>`
    select pg_try_advisory_xact_lock(hashtextextended(name, 0)) as is_locked
    from unnest(${keys.map(nameOf)}::text[]) as name`
}

/** In the order of the keys. In a transaction send it after the lock: then no record of another call can be missed. */
export function findKeys(sql: Sql, keys: ServedKey[]): Statement<FoundKey> {
  const accountIds = keys.map(({ accountId }) => accountId)
  return sql<FoundKey[]>`
    select held.body_hash, held.answer, held.is_finished, coalesce(usage.bytes, 0)::bigint as used,
      ${quotaValue(sql, { column: 'wanted.account_id' }, 'idempotency_bytes')} as quota
    from ${rowsOf(sql, keyColumns, keys.map(keyRow))} wanted
    left join idempotency_keys held on held.account_id = wanted.account_id and held.path = wanted.path
      and held.key = wanted.key and held.created_at > now() - ${retention}::interval
    left join (
      select account_id, sum(bytes) as bytes from idempotency_usage
      where account_id = any(${[...new Set(accountIds)]}::text[])
        and hour > now() - ${retention}::interval - interval '1 hour'
      group by account_id
    ) usage on usage.account_id = wanted.account_id
    order by wanted.ordinality`
}

// Size of a record's other columns and its index entries.
const bytesBesideAnswer = 512

/** Records answers. A finished answer is not changed until its 24 hours are over. */
export function recordAnswers(sql: Sql, records: NewRecord[]): Statement {
  const isOver = sql`held.created_at <= now() - ${retention}::interval`
  const rows = records.map(({ key, answer, isFinished: is_finished }) => {
    return { ...keyRow(key), body_hash: key.bodyHash, answer, is_finished }
  })
  return sql`
    with recorded as (
      insert into idempotency_keys as held (account_id, path, key, body_hash, answer, is_finished)
      select account_id, path, key, body_hash, answer, is_finished from ${rowsOf(sql, recordColumns, rows)} record
      on conflict (account_id, path, key) do update set
        body_hash = excluded.body_hash, answer = excluded.answer, is_finished = excluded.is_finished,
        created_at = case when ${isOver} then now() else held.created_at end
      where not held.is_finished or ${isOver}
      returning account_id, length(answer) as bytes
    )
    insert into idempotency_usage as u (account_id, hour, shard, bytes)
    select account_id, date_trunc('hour', now()), pg_backend_pid() % 8, sum(bytes + ${bytesBesideAnswer}::int)
    from recorded group by account_id order by account_id
    on conflict (account_id, hour, shard) do update set bytes = u.bytes + excluded.bytes`
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
