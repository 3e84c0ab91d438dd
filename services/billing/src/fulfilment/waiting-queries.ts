import type { Sql, Statement, Transaction } from '@licensing/database/connect'
import type { QuestionKind } from './decision.ts'

/** Rows that wait for a step, each for an owner, among whom the step is shared out. */
export interface Queue {
  table: string
  owner: 'account_id' | 'merchant'
  /** The column that says when a row is due. */
  dueAt: string
  /** The column by which an owner's rows are taken. */
  order: string
  isWaiting: (sql: Sql) => Statement
}

function ofAccounts(table: string, dueAt: string): Queue {
  return {
    table,
    owner: 'account_id',
    dueAt,
    order: dueAt,
    isWaiting: (sql) => sql`${sql(dueAt)} is not null`,
  }
}

/** Each condition is that of an index over owner and order. */
export const queues = {
  record: {
    table: 'processor_events',
    owner: 'merchant',
    dueAt: 'due_at',
    order: 'position',
    isWaiting: (sql) => sql`handled_at is null and not parked`,
  },
  decide: ofAccounts('fulfilments', 'due_at'),
  carryOut: ofAccounts('fulfilments', 'carry_at'),
  ask: ofAccounts('processor_questions', 'next_at'),
} as const satisfies Record<string, Queue>

/** Owners of rows that are due, by name. A step of the index for each, however many of its rows wait. */
export async function listOwners(
  sql: Sql,
  { table, owner, dueAt, isWaiting }: Queue,
  after: string,
  most: number,
  without: string[] = [],
): Promise<string[]> {
  const next = (before: Statement) => sql`(
    select ${sql(owner)} from ${sql(table)} where ${isWaiting(sql)} and ${sql(owner)} > ${before}
    order by ${sql(owner)} limit 1
  )`
  const rows = await sql<{ owner: string }[]>`
    with recursive waiting (owner) as (
      ${next(sql`${after}`)}
      union all
      select ${next(sql`w.owner`)} from waiting w where w.owner is not null
    )
    select owner from waiting w where owner <> all(${without}) and exists (
      select 1 from ${sql(table)}
      where ${sql(owner)} = w.owner and ${isWaiting(sql)} and ${sql(dueAt)} <= clock_timestamp()
    ) limit ${most}`
  return rows.map((row) => row.owner)
}

/** Rows that are due, so many of each owner, that nobody else has taken; until the end of the transaction. */
function due(
  sql: Sql,
  { table, owner, dueAt, order, isWaiting }: Queue,
  columns: Statement,
  owners: string[],
  each: number,
  only: Statement = sql``,
): Statement {
  return sql`
    select ${columns} from unnest(${owners}::text[]) as o (owner) cross join lateral (
      select ${columns} from ${sql(table)}
      where ${sql(owner)} = o.owner and ${isWaiting(sql)} and ${sql(dueAt)} <= clock_timestamp() ${only}
      order by ${sql(order)} limit ${each} for update skip locked
    ) d`
}

export interface InboxEvent {
  position: bigint
  event_id: string
  merchant: string
  type: string
  body: Buffer
  attempts: number
}

/** Takes events of each merchant, oldest first, until the end of the transaction. */
export async function claimEvents(
  tx: Transaction,
  merchants: string[],
  each: number,
  only?: bigint,
): Promise<InboxEvent[]> {
  const columns = tx`position, event_id, merchant, type, body, attempts`
  const one = only === undefined ? tx`` : tx`and position = ${only}`
  return tx<InboxEvent[]>`${due(tx, queues.record, columns, merchants, each, one)}`
}

export interface DueFulfilment {
  purchase_ref: string
  account_id: string
  ordered_at: Date | null
  attempts: number
}

/** Takes purchases of each account, the one that is due longest first, until the end of the transaction. */
export async function claimDue(
  tx: Transaction,
  accountIds: string[],
  each: number,
  only?: string,
): Promise<DueFulfilment[]> {
  const columns = tx`purchase_ref, account_id, ordered_at, attempts`
  const one = only === undefined ? tx`` : tx`and purchase_ref = ${only}`
  return tx<DueFulfilment[]>`${due(tx, queues.decide, columns, accountIds, each, one)}`
}

export interface Claimed {
  purchase_ref: string
  attempts: number
}

/** Takes purchases with effects for a while: where the taker dies, another takes them when that is over. */
export async function claimCarrying(
  sql: Sql,
  accountIds: string[],
  each: number,
  claimMs: number,
): Promise<Claimed[]> {
  return sql<Claimed[]>`
    update fulfilments set carry_at = clock_timestamp() + ${claimMs}::int * interval '1 millisecond'
    where purchase_ref in (${due(sql, queues.carryOut, sql`purchase_ref`, accountIds, each)})
    returning purchase_ref, attempts`
}

export interface DueQuestion {
  purchase_ref: string
  kind: QuestionKind
  ref: string
  account_id: string
  merchant: string
  attempts: number
}

/** Takes questions for a while: where the asker dies, another asks when that is over. */
export async function claimQuestions(
  sql: Sql,
  accountIds: string[],
  each: number,
  claimMs: number,
): Promise<DueQuestion[]> {
  return sql<DueQuestion[]>`
    update processor_questions set attempts = attempts + 1,
      next_at = clock_timestamp() + ${claimMs}::int * interval '1 millisecond'
    where (purchase_ref, kind, ref) in (${due(sql, queues.ask, sql`purchase_ref, kind, ref`, accountIds, each)})
    returning purchase_ref, kind, ref, account_id, merchant, attempts`
}
