import type { Sql } from '@licensing/database/connect'
import type { LicenceStatus } from '@licensing/proto/closed-sets'
import { licenceColumns } from './licence-queries.ts'
import type { LicenceRow } from './licence-row.ts'
import type { ChangedLicence } from './licence-event.ts'
import type { Move } from './licence.ts'

/** Who did it and because of what, as the history shows it. */
export interface By {
  actor: string
  cause?: string | undefined
}

export type Changed = LicenceRow & { former_status: LicenceStatus }

/** What events and counters need, and where the next ones begin. */
export type ChangedUncounted = ChangedLicence &
  Pick<Changed, 'plan_id' | 'former_status'> & { expires_on: Date | null }

/**
 * A part of a statement that locks licences. Of many, the ids are put in order first (`offset 0`: whatever the planner
 * believes of the table) and locked one by one, so that none is locked that the limit leaves out.
 */
export type Selection = ReturnType<typeof licenceColumns>

/**
 * Locks the licences that `selection` gives (id, status and status_reason, in lock order, `for update`), changes them
 * and writes their history.
 */
export async function changeLicences(sql: Sql, selection: Selection, move: Move, by: By): Promise<Changed[]> {
  return sql<Changed[]>`
    with ${changed(sql, selection, move, by)}, counted as (${countChanges(sql, sql`changed`)})
    select ${licenceColumns(sql)}, l.former_status from changed l`
}

/** The same in any number, without the plans' counters, for those who count once at the end. */
export async function changeLicencesUncounted(
  sql: Sql,
  selection: Selection,
  move: Move,
  by: By,
  order: Selection,
): Promise<ChangedUncounted[]> {
  return sql<ChangedUncounted[]>`
    with ${changed(sql, selection, move, by)}
    select l.id, l.account_id, l.application_id, l.plan_id, l.status, l.status_reason, l.expires_on, l.former_status
    from changed l order by ${order}`
}

/** After all that is known of the licence's purchases, whose times are the processor's. */
const afterAllKnown = (sql: Sql) => sql`greatest(clock_timestamp(), (
  select max(at) + interval '1 millisecond' from purchase_effects where licence_id = l.id))`

const changed = (sql: Sql, selection: Selection, move: Move, { actor, cause }: By) => sql`
  former as materialized (${selection}),
  changed as (
    update licences l set
      status = ${move.to},
      status_reason = ${move.reason ?? null},
      expired_from = ${move.former === 'remembered' ? sql`former.status` : null},
      expired_from_reason = ${move.former === 'remembered' ? sql`former.status_reason` : null},
      ${move.pardons ? sql`reactivated_at = ${afterAllKnown(sql)},` : sql``}
      updated_at = clock_timestamp()
    from former where l.id = former.id
    returning ${licenceColumns(sql)}, former.status as former_status
  ),
  recorded as (
    insert into licence_history (licence_id, at, type, from_status, to_status, actor, cause)
    select id, updated_at, ${move.history}, former_status, status, ${actor}, ${cause ?? null}
    from changed order by id
  )`

/** Carries the changes of a query (plan_id, former_status, status) over to the plans' counters. */
const countChanges = (sql: Sql, from: Selection) => sql`
  insert into plan_counts (plan_id, shard, active)
  select plan_id, pg_backend_pid() % 16, sum((status = 'active')::int - (former_status = 'active')::int)
  from ${from}
  group by plan_id
  having sum((status = 'active')::int - (former_status = 'active')::int) <> 0
  order by plan_id
  on conflict (plan_id, shard) do update set active = plan_counts.active + excluded.active`

/** Adds to the plans' counters. The last lock that a transaction takes, but for the outbox. */
export async function addToCounts(sql: Sql, changes: ReadonlyMap<string, number>): Promise<void> {
  const entries = [...changes].filter(([, active]) => active !== 0)
  if (entries.length === 0) return
  await sql`
    insert into plan_counts (plan_id, shard, active)
    select plan_id, pg_backend_pid() % 16, active
    from unnest(
      ${entries.map(([planId]) => planId)}::text[],
      ${entries.map(([, active]) => active)}::bigint[]
    ) as change (plan_id, active)
    order by plan_id
    on conflict (plan_id, shard) do update set active = plan_counts.active + excluded.active`
}
