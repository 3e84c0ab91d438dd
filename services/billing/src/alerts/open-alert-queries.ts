import type { Sql } from '@licensing/database/connect'
import type { AlertKind } from '@licensing/proto/closed-sets'

/** @returns the accounts that had no open alert of this kind */
export async function openAlerts(sql: Sql, accountIds: string[], kind: AlertKind): Promise<string[]> {
  const rows = await sql<{ account_id: string }[]>`
    insert into open_alerts (account_id, kind)
    select account_id, ${kind} from unnest(${accountIds}::text[]) as a (account_id) order by account_id
    on conflict do nothing
    returning account_id`
  return rows.map((row) => row.account_id)
}

/** Closes alerts whose cause is gone, so that the next failure is alerted again. */
export async function closeAlerts(sql: Sql, accountIds: string[], kind: AlertKind): Promise<void> {
  await sql`delete from open_alerts where account_id = any(${accountIds}) and kind = ${kind}`
}

/** Closes the alerts of accounts that have no dead-lettered event any more. */
export async function closeDeadLetterAlerts(sql: Sql): Promise<void> {
  await sql`
    delete from open_alerts a where kind = 'processor_event_parked' and not exists (
      select 1 from processor_connections c join processor_events e on e.merchant = c.merchant and e.dead_lettered
      where c.account_id = a.account_id
    )`
}
