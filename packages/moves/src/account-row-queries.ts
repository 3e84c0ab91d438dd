import type { Sql, Transaction } from '@licensing/database/connect'
import type { AccountTable } from './account-tables.ts'
import type { Move } from './move-queries.ts'

interface Column {
  name: string
  type: string
  /** PostgreSQL computes or numbers it. */
  is_given: boolean
  /** Its place in the primary key, from 1. */
  place: number | null
}

export async function columnsOf(sql: Sql, table: string): Promise<Column[]> {
  return sql<Column[]>`
    select a.attname as name, format_type(a.atttypid, a.atttypmod) as type,
      a.attgenerated <> '' or a.attidentity <> '' as is_given,
      array_position(i.indkey::int2[], a.attnum) + 1 as place
    from pg_attribute a left join pg_index i on i.indrelid = a.attrelid and i.indisprimary
    where a.attrelid = ${table}::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum`
}

const keyOf = (columns: Column[]) =>
  columns.filter(({ place }) => place !== null).toSorted((a, b) => a.place! - b.place!)

/** The values of an account that tables contain, which have its rows. */
async function ownersOf(sql: Sql, { of }: AccountTable, move: Move): Promise<string[]> {
  if (of === 'account') return [move.account_id]
  if (of === 'application') return move.application_ids
  if ('table' in of) return []
  const rows = await sql.unsafe<{ owner: string }[]>(of.owners, [move.account_id])
  return rows.map(({ owner }) => owner)
}

/** The table whose keys a table's column contains. */
export function parentOf(
  tables: readonly AccountTable[],
  { of }: AccountTable,
): (AccountTable & { key: string }) | undefined {
  if (typeof of === 'string' || !('table' in of)) return undefined
  return { ...tables.find(({ table }) => table === of.table)!, key: of.key }
}

interface Cursor {
  /** The place in the list of tables, and in the list of owners. */
  table: number
  owner: number
  /** The values of the last row, or of the last owner in a table of parents, by which rows are ordered. */
  after: string[]
}

/** A page of the rows of one table. */
export interface RowPage {
  table: string
  /** A JSON array. */
  rows: string
  count: number
  next: string
}

const rowsAtOnce = 500
const parentsAtOnce = 200
const bytesAtOnce = 2_000_000

/**
 * Reads the next page of an account's rows. The database refuses changes of them meanwhile, so pages that are read at different times
 * fit together.
 */
export async function exportRows(
  sql: Sql,
  tables: readonly AccountTable[],
  move: Move,
  cursor: string,
): Promise<RowPage> {
  const at: Cursor = cursor === '' ? { table: 0, owner: 0, after: [] } : (JSON.parse(cursor) as Cursor)
  const entry = tables[at.table]!
  const parent = parentOf(tables, entry)
  const owners = await ownersOf(sql, parent ?? entry, move)
  const owner = owners[at.owner]
  const isExported = entry.is === undefined && owner !== undefined
  const page = isExported
    ? await readPage(sql, entry, parent, owner, at.after)
    : { rows: '[]', count: 0, after: undefined }
  const next: Cursor | undefined =
    page.after !== undefined
      ? { ...at, after: page.after }
      : isExported && at.owner + 1 < owners.length
        ? { ...at, owner: at.owner + 1, after: [] }
        : at.table + 1 < tables.length
          ? { table: at.table + 1, owner: 0, after: [] }
          : undefined
  return {
    table: entry.table,
    rows: page.rows,
    count: page.count,
    next: next === undefined ? '' : JSON.stringify(next),
  }
}

async function readPage(
  sql: Sql,
  { table, column, sharedBy }: AccountTable,
  parent: (AccountTable & { key: string }) | undefined,
  owner: string,
  after: string[],
): Promise<{ rows: string; count: number; after: string[] | undefined }> {
  const columns = await columnsOf(sql, table)
  const order = [
    ...(parent ? columns.filter(({ name }) => name === column) : []),
    ...keyOf(columns).filter(({ name }) => !parent || name !== column),
  ]
  const names = order.map(({ name }) => `t.${name}`)
  const values = after.map((_, at) => `$${at + 2}::text::${order[at]!.type}`)
  const isAfter =
    after.length === 0 ? 'true' : `(${names.slice(0, after.length).join()}) > (${values.join()})`
  // The children of a page of parents. After the last of them, `after` has only the parent's key.
  const owned = parent
    ? `(
        select p.${parent.key} as key from ${parent.table} p
        where p.${parent.column} = $1 ${after.length > 0 ? `and p.${parent.key} >= ${values[0]}` : ''}
        order by p.${parent.key} limit ${parentsAtOnce}
      ) p cross join lateral (
        select * from ${table} t where t.${column} = p.key and ${isAfter} order by ${names.join()} limit ${rowsAtOnce}
      ) t`
    : `(select * from ${table} t where ${sharedBy ?? `t.${column} = $1`} and ${isAfter} order by ${names.join()} limit ${rowsAtOnce}) t`
  const [page] = await sql.unsafe<{ rows: string | null; last: string[] | null; count: number }[]>(
    `with next as materialized (
      select row_to_json(t)::text as json, array[${names.map((name) => `${name}::text`).join()}] as place,
        row_number() over (order by ${names.join()}) as at
      from ${owned} order by at limit ${rowsAtOnce}
    ), bounded as (
      select *, sum(length(json)) over (order by at) as bytes from next
    )
    select '[' || string_agg(json, ',' order by at) || ']' as rows, json_agg(place order by at desc) -> 0 as last,
      count(*)::int as count
    from bounded where bytes <= ${bytesAtOnce} or at = 1`,
    [owner, ...after],
  )
  const { rows, last, count } = page!
  if (count > 0) return { rows: rows!, count, after: last! }
  if (!parent) return { rows: '[]', count, after: undefined }
  // No row is left of these parents.
  const [{ key, parents }] = await sql.unsafe<[{ key: string | null; parents: number }]>(
    `select max(key)::text as key, count(*)::int as parents from (
      select ${parent.key} as key from ${parent.table}
      where ${parent.column} = $1 ${after.length > 0 ? `and ${parent.key} >= $2` : ''} order by ${parent.key} limit ${parentsAtOnce}
    ) p`,
    after.length > 0 ? [owner, after[0]!] : [owner],
  )
  return { rows: '[]', count, after: parents === parentsAtOnce && key !== null ? [key] : undefined }
}

/** Inserts rows of a page, with what triggers would have counted a second time removed. */
export async function importRows(
  tx: Transaction,
  tables: readonly AccountTable[],
  move: Move,
  { table, rows }: { table: string; rows: string },
): Promise<void> {
  const entry = tables.find((each) => each.table === table)!
  const columns = await columnsOf(tx, table)
  const key = keyOf(columns)
  // The database numbers the rows again, in the order of the page.
  const given = columns.filter(({ is_given: isGiven }) => !isGiven).map(({ name }) => name)
  const values = given.map((name) => entry.set?.[name] ?? name)
  const conflict =
    entry.onConflict === 'replace'
      ? `on conflict (${key.map(({ name }) => name).join()}) do update set ${given.map((name) => `${name} = excluded.${name}`).join()}`
      : entry.onConflict === 'keep'
        ? 'on conflict do nothing'
        : ''
  await tx.unsafe(
    `insert into ${table} (${given.join()})
    select ${values.join()} from json_populate_recordset(null::${table}, $1::text::json) ${conflict}`,
    [rows],
  )
  const counted = tables.filter(({ is }) => is === 'transient')
  await deleteRows(tx, counted, move, tables)
}

/** Deletes an account's rows, except those that accounts share and those that are kept. */
export async function deleteRows(
  tx: Transaction,
  tables: readonly AccountTable[],
  move: Move,
  all: readonly AccountTable[] = tables,
): Promise<void> {
  // Lets the triggers of tables that are otherwise append-only pass.
  await tx`select set_config('licensing.account_moves', 'on', true)`
  for (const entry of tables.toReversed()) {
    if (entry.sharedBy !== undefined || entry.kept) continue
    const parent = parentOf(all, entry)
    const owners = await ownersOf(tx, parent ?? entry, move)
    const isOwned = parent
      ? `in (select ${parent.key} from ${parent.table} where ${parent.column} = any($1::text[]))`
      : '= any($1::text[])'
    await tx.unsafe(`delete from ${entry.table} where ${entry.column} ${isOwned}`, [
      `{${owners.map((owner) => JSON.stringify(owner)).join()}}`,
    ])
  }
}

/** Whether there are rows that are only this account's, and that it or its vendor has made. */
export async function hasRows(
  tx: Transaction,
  tables: readonly AccountTable[],
  move: Pick<Move, 'account_id' | 'application_ids'>,
): Promise<boolean> {
  const checks = tables
    .filter(
      ({ of, sharedBy, kept, unfenced, is }) =>
        typeof of === 'string' && !sharedBy && !kept && !unfenced && !is,
    )
    .map(
      ({ table, column, of }) =>
        `exists (select from ${table} where ${column} = any(${of === 'account' ? '$1' : '$2'}::text[]))`,
    )
  const [row] = await tx.unsafe<[{ found: boolean }]>(`select ${checks.join(' or ')} as found`, [
    `{${move.account_id}}`,
    `{${move.application_ids.join()}}`,
  ])
  return row.found
}

/** Whether the account has events without a number, or rows in transient tables, or other work is under way. */
export async function isBusy(
  sql: Sql,
  tables: readonly AccountTable[],
  move: Move,
  underWay: string[],
): Promise<boolean> {
  const checks = tables
    .filter(({ is }) => is === 'transient')
    .map((entry) => {
      const parent = parentOf(tables, entry)
      const owners = (of: AccountTable['of']) =>
        of === 'account'
          ? '= $1'
          : '= any(array(select unnest(application_ids) from account_moves where account_id = $1))'
      return `select from ${entry.table} where ${entry.column} ${
        parent
          ? `in (select ${parent.key} from ${parent.table} where ${parent.column} ${owners(parent.of)})`
          : owners(entry.of)
      }`
    })
  const all = ['select from outbox where account_id = $1', ...checks, ...underWay]
  const [row] = await sql.unsafe<[{ busy: boolean }]>(
    `select ${all.map((check) => `exists (${check})`).join(' or ')} as busy`,
    [move.account_id],
  )
  return row.busy
}
