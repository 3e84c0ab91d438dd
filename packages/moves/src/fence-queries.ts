import type { Database, Sql, Transaction } from '@licensing/database/connect'
import { locks } from '@licensing/database/locks'
import { isLockTimeout } from '@licensing/database/problems'
import { transaction } from '@licensing/database/transaction'
import { setTimeout as sleep } from 'node:timers/promises'
import { columnsOf, parentOf } from './account-row-queries.ts'
import type { AccountTable } from './account-tables.ts'

/** The condition that the row `new` belongs to an account `m` of `account_moves`. */
async function belongsTo(sql: Sql, tables: readonly AccountTable[], entry: AccountTable): Promise<string> {
  const names = (await columnsOf(sql, entry.table)).map(({ name }) => name)
  if (entry.of === 'account') return `new.${entry.column} = m.account_id`
  if (names.includes('account_id')) return 'new.account_id = m.account_id'
  if (names.includes('application_id')) return 'new.application_id = any(m.application_ids)'
  const parent = parentOf(tables, entry)
  if (!parent)
    return `new.${entry.column} in (${(entry.of as { owners: string }).owners.replaceAll('$1', 'm.account_id')})`
  const owner = parent.of === 'account' ? '= m.account_id' : '= any(m.application_ids)'
  return `exists (select from ${parent.table} p where p.${parent.key} = new.${entry.column} and p.${parent.column} ${owner})`
}

const lockTries = 60
const lockWait = '500ms'
const pauseMs = 500

/** A short wait for the lock of a table, again and again, so that writers behind it do not wait for long. */
async function withTableLock(sql: Database, work: (tx: Transaction) => Promise<unknown>): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await transaction(sql, async (tx) => {
        await tx`select pg_advisory_xact_lock(${locks.fences})`
        await tx`select set_config('lock_timeout', ${lockWait}, true)`
        await work(tx)
      })
    } catch (error) {
      if (!isLockTimeout(error) || tries === lockTries) throw error
      await sleep(pauseMs)
    }
  }
}

/**
 * Adds a trigger to each table that refuses rows of accounts that are leaving or gone. Adding it waits for the transactions that
 * write the table. Then no transaction writes such a row, whatever its code knows of the move.
 */
export async function fence(
  sql: Database,
  tables: readonly AccountTable[],
  exceptTables: string[],
): Promise<void> {
  const outbox: AccountTable = { table: 'outbox', column: 'account_id', of: 'account' }
  const fenced = [...tables, outbox].filter(
    ({ table, is, unfenced, sharedBy }) =>
      is === undefined && !unfenced && sharedBy === undefined && !exceptTables.includes(table),
  )
  for (const entry of new Map(fenced.map((each) => [each.table, each])).values()) {
    const { table } = entry
    const [known] = await sql`
      select from pg_trigger where tgrelid = ${table}::regclass and tgname = 'refuse_moving'`
    if (known) continue
    const condition = await belongsTo(sql, tables, entry)
    await withTableLock(sql, (tx) =>
      tx.unsafe(`
        create or replace function refuse_moving_${table}() returns trigger language plpgsql as $body$
        begin
          if exists (select from account_moves m where m.state in ('leaving', 'moved', 'returning') and ${condition}) then
            raise exception 'the account of this row moves to another cell' using errcode = 'LM001';
          end if;
          return new;
        end
        $body$;
        create or replace trigger refuse_moving before insert or update on ${table}
          for each row execute function refuse_moving_${table}()`),
    )
  }
}

/** Removes the triggers, if no account needs them. */
export async function unfence(sql: Database): Promise<void> {
  const tables = await sql<{ name: string }[]>`
    select tgrelid::regclass::text as name from pg_trigger where tgname = 'refuse_moving' and tgparentid = 0`
  for (const { name } of tables) {
    await withTableLock(sql, async (tx) => {
      const needed =
        await tx`select from account_moves where state in ('leaving', 'moved', 'returning') limit 1`
      if (needed.count === 0) await tx.unsafe(`drop function if exists refuse_moving_${name}() cascade`)
    })
  }
}
