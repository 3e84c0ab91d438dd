import type { Sql, Statement, Transaction } from '@licensing/database/connect'
import { insertRows } from '@licensing/database/row-queries'
import { hashOf } from '@licensing/events/partitions'
import type { MoveState } from '@licensing/proto/closed-sets'

export interface Move {
  account_id: string
  state: MoveState
  application_ids: string[]
  address: string
  attempt: string
}

export async function listMoves(sql: Sql): Promise<Move[]> {
  return sql<Move[]>`select account_id, state, application_ids, address, attempt from account_moves`
}

export async function findMove(sql: Sql, accountId: string): Promise<Move | undefined> {
  const [move] = await sql<Move[]>`
    select account_id, state, application_ids, address, attempt from account_moves where account_id = ${accountId}`
  return move
}

/** As `findMove`. Other transactions cannot change the state, even if there is none, until this one ends. */
export async function lockMove(tx: Transaction, accountId: string): Promise<Move | undefined> {
  await tx`select pg_advisory_xact_lock(hashtextextended(${`move ${accountId}`}, 0))`
  return findMove(tx, accountId)
}

export async function saveMove(sql: Sql, move: Move): Promise<void> {
  await insertRows(
    sql,
    'account_moves',
    [move],
    sql`on conflict (account_id) do update set state = excluded.state, application_ids = excluded.application_ids,
      address = excluded.address, attempt = excluded.attempt`,
  )
}

export async function deleteMove(sql: Sql, accountId: string): Promise<void> {
  await sql`delete from account_moves where account_id = ${accountId}`
}

/**
 * The condition that an account, in a column of a query, does not move. Background work leaves the others out, because the database
 * refuses to change their rows.
 *
 * @example sql`select … from alerts where ${stays(sql, 'account_id')}`
 */
export const stays = (sql: Sql, column: string): Statement =>
  sql`${sql(column)} <> all(array(select account_id from account_moves))`

/** As `stays`, for the column of an application. */
export const applicationStays = (sql: Sql, column: string): Statement =>
  sql`${sql(column)} <> all(array(select unnest(application_ids) from account_moves))`

/** The newest batch in the log of the account's partition. */
export async function findNewest(sql: Sql, accountId: string): Promise<LogPosition> {
  const [row] = await sql<[LogPosition]>`
    select coalesce((select max(ordinal) from event_log_epochs), 0) as epoch, partition, numbers[partition + 1] as number
    from event_log_state cross join lateral (
      select (${hashOf(accountId)}::bigint % cardinality(numbers))::int as partition
    ) of_account`
  return row
}

interface LogPosition {
  partition: number
  epoch: bigint
  number: bigint
}

/**
 * Whether this service's position in another one's log has reached a batch, and the dead letters of the account. A partition
 * without a batch may have been added: it has a position as soon as the earlier events of its accounts are consumed.
 */
export async function findConsumed(
  sql: Sql,
  accountId: string,
  { source, partition, epoch, number }: LogPosition & { source: string },
): Promise<{ hasConsumed: boolean; deadLetters: number }> {
  const [row] = await sql<[{ hasConsumed: boolean; deadLetters: number }]>`
    select exists (
      select from consumer_positions where source = ${source} and partition = ${partition}
        and (${number} = 0::bigint or (epoch, number) >= (${epoch}::bigint, ${number}::bigint))
    ) as "hasConsumed", (
      select count(*)::int from dead_letters where account_id = ${accountId}
    ) as "deadLetters"`
  return row
}
