import type { Sql, Statement, Transaction } from '@licensing/database/connect'
import { stays } from '@licensing/moves/move-queries'
import type { Stage } from '../dependencies.ts'
import { timing } from '../timing.ts'

/** A table whose rows wait for a stage. Each row belongs to an owner, and the owners get equal shares of each round. */
export interface Queue<Row extends object> {
  table: string
  owner: keyof Row & string
  key: string[]
  /** The columns that are read. */
  columns: (keyof Row & string)[]
  /** The column that says when a row is due. */
  dueAt: string
  /** The column by which an owner's rows are taken. */
  order: string
  /** The condition of the partial index on owner and order. */
  isWaiting: (sql: Sql) => Statement
  /** Whether leasing a row counts as an attempt. */
  isLeaseCounted?: true
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
  isWaiting: (sql) => sql`handled_at is null and not dead_lettered`,
}

/** A purchase that needs a decision, or that has effects to send. */
export interface DuePurchase {
  purchase_ref: string
  account_id: string
  ordered_at: Date | null
  attempts: number
  /** Whether licensing did not answer a batch with it in time. */
  is_late: boolean
}

const purchases = (dueAt: 'decide_at' | 'send_at'): Queue<DuePurchase> => ({
  table: 'purchases',
  owner: 'account_id',
  key: ['purchase_ref'],
  columns: ['purchase_ref', 'account_id', 'ordered_at', 'attempts', 'is_late'],
  dueAt,
  order: dueAt,
  isWaiting: (sql) => sql`${sql(dueAt)} is not null`,
})

export const questionKinds = ['charge', 'invoice', 'subscription', 'records', 'events'] as const

export type QuestionKind = (typeof questionKinds)[number]

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
  isLeaseCounted: true,
}

/** The queue of each stage. */
export const queues = {
  record: events,
  decide: purchases('decide_at'),
  ask: questions,
  send: purchases('send_at'),
} satisfies Record<Stage, unknown>

/** As `stays`, for the column of a merchant. */
export const merchantStays = (sql: Sql, column: string): Statement => sql`
  ${sql(column)} <> all(array(select merchant from processor_connections join account_moves using (account_id)))`

type AnyQueue = Pick<Queue<object>, 'table' | 'dueAt' | 'order' | 'isWaiting'> & { owner: string }

/**
 * Owners of rows that are due, or will be within `withinMs`, by name. It reads one entry of the index for each owner,
 * however many rows wait. Owners of events are listed even if none of their events is due yet: checking that would read
 * past all events that were handled since the last vacuum, which costs more.
 */
export async function listOwners(
  sql: Sql,
  queue: AnyQueue,
  after: string,
  limit: number,
  options: OwnerOptions = {},
): Promise<string[]> {
  const rows = await owners(sql, queue, after, limit, options)
  return rows.map((row) => row.owner)
}

interface OwnerOptions {
  without?: string[]
  withinMs?: number
}

function owners(
  sql: Sql,
  { table, owner, dueAt, isWaiting }: AnyQueue,
  after: string,
  limit: number,
  { without = [], withinMs = 0 }: OwnerOptions,
): Statement<{ owner: string }> {
  const next = (before: Statement) => sql`(
    select ${sql(owner)} from ${sql(table)} where ${isWaiting(sql)} and ${sql(owner)} > ${before}
    order by ${sql(owner)} limit 1
  )`
  const isDue = sql`exists (
    select 1 from ${sql(table)}
    where ${sql(owner)} = w.owner and ${isWaiting(sql)}
      and ${sql(dueAt)} <= clock_timestamp() + ${withinMs}::int * interval '1 millisecond'
  )`
  const remains = owner === 'account_id' ? stays(sql, 'w.owner') : merchantStays(sql, 'w.owner')
  const isListed = table === events.table ? sql`owner is not null` : isDue
  return sql<{ owner: string }[]>`
    with recursive waiting (owner) as (
      ${next(sql`${after}`)}
      union all
      select ${next(sql`w.owner`)} from waiting w where w.owner is not null
    )
    select owner from waiting w where owner <> all(${without}) and ${remains} and ${isListed} limit ${limit}`
}

/** Which of these stages have a row that is due, or will be within `withinMs`. */
export async function listBusy(sql: Sql, stages: Stage[], withinMs: number): Promise<Stage[]> {
  const isBusy = stages.map((stage) => sql`exists (${owners(sql, queues[stage], '', 1, { withinMs })})`)
  const [row] = await sql<{ busy: boolean[] }[]>`
    select array[${isBusy.reduce((all, each) => sql`${all}, ${each}`)}] as busy`
  return stages.filter((_, at) => row!.busy[at])
}

/** The first due rows of each owner that no other transaction has locked. */
function due(
  sql: Sql,
  { table, owner, dueAt, order, isWaiting }: AnyQueue,
  columns: string[],
  owners: string[],
  each: number,
): Statement {
  return sql`
    select ${sql(columns)} from unnest(${owners}::text[]) as o (owner) cross join lateral (
      select ${sql(columns)} from ${sql(table)}
      where ${sql(owner)} = o.owner and ${isWaiting(sql)} and ${sql(dueAt)} <= clock_timestamp()
      order by ${sql(order)} limit ${each} for update skip locked
    ) d`
}

/** Locks due rows until the end of the transaction. */
export async function lockDue<Row extends object>(
  tx: Transaction,
  queue: Queue<Row>,
  owners: string[],
  each: number,
): Promise<Row[]> {
  return tx<Row[]>`${due(tx, queue, queue.columns, owners, each)}`
}

/** Leases due rows: if the process dies, another one leases them after `timing.lease`. */
export async function lease<Row extends object>(
  sql: Sql,
  queue: Queue<Row>,
  owners: string[],
  each: number,
): Promise<Row[]> {
  const { table, dueAt, key, isLeaseCounted } = queue
  const columns: string[] = queue.columns
  return sql<Row[]>`
    update ${sql(table)} set ${sql(dueAt)} = clock_timestamp() + ${timing.lease}::int * interval '1 millisecond'
      ${isLeaseCounted ? sql`, attempts = attempts + 1` : sql``}
    where (${sql(key)}) in (${due(sql, queue, key, owners, each)}) returning ${sql(columns)}`
}

/** How many rows wait for each stage. */
export async function countBacklog(sql: Sql): Promise<Record<string, number>> {
  const counts = Object.entries(backlog).map(
    ([name, { of, where }]) => `(select count(*) from ${of} where ${where})::int as ${name}`,
  )
  const [row] = await sql<Record<string, number>[]>`select ${sql.unsafe(counts.join())}`
  return row!
}

export const backlog = {
  processor_events_waiting: {
    of: 'processor_events',
    where: 'handled_at is null and not dead_lettered',
    help: 'Processor events not recorded yet',
  },
  processor_events_dead_lettered: {
    of: 'processor_events',
    where: 'dead_lettered',
    help: 'Processor events that are not understood or cannot be stored: licensing-admin processor-events list',
  },
  purchases_due: {
    of: 'purchases',
    where: 'decide_at is not null',
    help: 'Purchases that need a decision, now or later',
  },
  purchases_unsent: {
    of: 'purchases',
    where: 'send_at is not null',
    help: 'Purchases with effects that have not been sent to licensing yet',
  },
  processor_questions_waiting: {
    of: 'processor_questions',
    where: 'next_at is not null',
    help: 'Questions that the processor has not answered yet',
  },
} as const
