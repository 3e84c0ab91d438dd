import type { Sql, Statement, Transaction } from '@licensing/database/connect'
import type { QuestionKind } from './decide/decision.ts'
import { timing } from './timing.ts'

/** Rows that wait for a step, each for an owner, among whom the step is shared out. */
export interface Queue<Row extends object> {
  table: string
  owner: string
  key: string[]
  /** What is read of a row. */
  columns: (keyof Row & string)[]
  /** The column that says when a row is due. */
  dueAt: string
  /** The column by which an owner's rows are taken. */
  order: string
  /** The condition of the index over owner and order. */
  isWaiting: (sql: Sql) => Statement
  /** To take a row is an attempt, whatever becomes of it. */
  isTakeCounted?: true
}

export interface InboxEvent {
  position: bigint
  event_id: string
  merchant: string
  type: string
  body: Buffer
  attempts: number
}

const events: Queue<InboxEvent> = {
  table: 'processor_events',
  owner: 'merchant',
  key: ['position'],
  columns: ['position', 'event_id', 'merchant', 'type', 'body', 'attempts'],
  dueAt: 'due_at',
  order: 'position',
  isWaiting: (sql) => sql`handled_at is null and not parked`,
}

/** A purchase about which there is something to decide, or that has effects to carry out. */
export interface DueFulfilment {
  purchase_ref: string
  account_id: string
  ordered_at: Date | null
  attempts: number
}

const fulfilments = (dueAt: 'due_at' | 'carry_at'): Queue<DueFulfilment> => ({
  table: 'fulfilments',
  owner: 'account_id',
  key: ['purchase_ref'],
  columns: ['purchase_ref', 'account_id', 'ordered_at', 'attempts'],
  dueAt,
  order: dueAt,
  isWaiting: (sql) => sql`${sql(dueAt)} is not null`,
})

export interface DueQuestion {
  purchase_ref: string
  kind: QuestionKind
  ref: string
  account_id: string
  merchant: string
  attempts: number
}

const questions: Queue<DueQuestion> = {
  table: 'processor_questions',
  owner: 'account_id',
  key: ['purchase_ref', 'kind', 'ref'],
  columns: ['purchase_ref', 'kind', 'ref', 'account_id', 'merchant', 'attempts'],
  dueAt: 'next_at',
  order: 'next_at',
  isWaiting: (sql) => sql`next_at is not null`,
  isTakeCounted: true,
}

export const queues = {
  events,
  decisions: fulfilments('due_at'),
  effects: fulfilments('carry_at'),
  questions,
}

type AnyQueue = Omit<Queue<object>, 'columns'>

/**
 * Owners of rows that are due, or will be within `withinMs`, by name. A step of the index for each, however many of its rows wait. An owner of events is
 * listed though none is due yet: to look for one, past all that were handled since the last vacuum, costs more.
 */
export async function listOwners(
  sql: Sql,
  { table, owner, dueAt, isWaiting }: AnyQueue,
  after: string,
  most: number,
  { without = [], withinMs = 0 }: { without?: string[]; withinMs?: number } = {},
): Promise<string[]> {
  const next = (before: Statement) => sql`(
    select ${sql(owner)} from ${sql(table)} where ${isWaiting(sql)} and ${sql(owner)} > ${before}
    order by ${sql(owner)} limit 1
  )`
  const isDue = sql`exists (
    select 1 from ${sql(table)}
    where ${sql(owner)} = w.owner and ${isWaiting(sql)}
      and ${sql(dueAt)} <= clock_timestamp() + ${withinMs}::int * interval '1 millisecond'
  )`
  const isListed = table === events.table ? sql`owner is not null` : isDue
  const rows = await sql<{ owner: string }[]>`
    with recursive waiting (owner) as (
      ${next(sql`${after}`)}
      union all
      select ${next(sql`w.owner`)} from waiting w where w.owner is not null
    )
    select owner from waiting w where owner <> all(${without}) and ${isListed} limit ${most}`
  return rows.map((row) => row.owner)
}

/** Whether the next looks may find something: a round that found nothing may rest for so long otherwise. */
export async function isAnyDueWithin(sql: Sql, queue: AnyQueue, withinMs: number): Promise<boolean> {
  const owners = await listOwners(sql, queue, '', 1, { withinMs })
  return owners.length > 0
}

/** Rows that are due, so many of each owner in their order, and that nobody else has taken. */
function due(
  sql: Sql,
  { table, owner, dueAt, order, isWaiting }: AnyQueue,
  columns: string[],
  owners: string[],
  each: number,
  only: Statement = sql``,
): Statement {
  return sql`
    select ${sql(columns)} from unnest(${owners}::text[]) as o (owner) cross join lateral (
      select ${sql(columns)} from ${sql(table)}
      where ${sql(owner)} = o.owner and ${isWaiting(sql)} and ${sql(dueAt)} <= clock_timestamp() ${only}
      order by ${sql(order)} limit ${each} for update skip locked
    ) d`
}

/** Takes rows until the end of the transaction. */
export async function take<Row extends object>(
  tx: Transaction,
  queue: Queue<Row>,
  owners: string[],
  each: number,
): Promise<Row[]> {
  return tx<Row[]>`${due(tx, queue, queue.columns, owners, each)}`
}

/** Takes one row again, unless it has been worked on since. */
export async function takeAgain<Row extends object>(
  tx: Transaction,
  queue: Queue<Row>,
  row: Row,
): Promise<Row[]> {
  const values = row as Record<string, string | bigint>
  const key = queue.key[0]!
  const only = tx`and ${tx(key)} = ${values[key]!}`
  return tx<Row[]>`${due(tx, queue, queue.columns, [String(values[queue.owner])], 1, only)}`
}

/** Takes rows for a while: where the taker dies, another takes them when that is over. */
export async function lease<Row extends object>(
  sql: Sql,
  queue: Queue<Row>,
  owners: string[],
  each: number,
): Promise<Row[]> {
  const { table, dueAt, key, isTakeCounted } = queue
  const columns: string[] = queue.columns
  return sql<Row[]>`
    update ${sql(table)} set ${sql(dueAt)} = clock_timestamp() + ${timing.claim}::int * interval '1 millisecond'
      ${isTakeCounted ? sql`, attempts = attempts + 1` : sql``}
    where (${sql(key)}) in (${due(sql, queue, key, owners, each)}) returning ${sql(columns)}`
}
