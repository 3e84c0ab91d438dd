import type { Sql, Statement } from '@licensing/database/connect'
import { inOrderOf, rowsOf } from '@licensing/database/row-queries'
import type { LicenceStatus, PlanStatus } from '@licensing/proto/closed-sets'
import { rowColumns } from './licence-row.ts'
import type { ChangedLicence, LicenceRow } from './licence-row.ts'
import { announcements } from './licence.ts'
import type { BulkChange, LicenceState } from './licence.ts'

const columnList = rowColumns.map((name) => `l.${name}`).join(', ')

/** The columns of a LicenceRow, from the table or query named `l`. */
export const licenceColumns = (sql: Sql) => sql`${sql.unsafe(columnList)}`

/** The id of a licence, with the account, and the application if the API key is bound to one. */
export interface LicenceScope {
  accountId: string
  licenceId: string
  onlyApplicationId?: string | undefined
}

export const inScope = (sql: Sql, { accountId, licenceId, onlyApplicationId }: LicenceScope) => sql`
  l.id = ${licenceId} and l.account_id = ${accountId}
  ${onlyApplicationId === undefined ? sql`` : sql`and l.application_id = ${onlyApplicationId}`}`

/** Whether a licence that was read only by its id is in the scope. */
export function isInScope(licence: LicenceRow, { accountId, onlyApplicationId }: LicenceScope): boolean {
  return (
    licence.account_id === accountId &&
    licence.application_id === (onlyApplicationId ?? licence.application_id)
  )
}

/**
 * The condition that a licence, or its row in `licence_statuses`, has one of these statuses. They are literals as in the
 * partial indexes: with parameters PostgreSQL could not use those indexes.
 */
export const statusIn = (sql: Sql, statuses: readonly LicenceStatus[]) => sql`
  status in (${sql.unsafe(statuses.map((status) => `'${status}'`).join(', '))})`

/** A licence with the columns on which its status depends. */
export type LicenceStateRow = LicenceRow & LicenceState

export const stateColumns = (sql: Sql) => sql`${licenceColumns(sql)}, l.hold, l.purchase`

export type FoundLicence = LicenceStateRow & { plan_status: PlanStatus }

/** A licence with the id of its snapshot. */
export type LicenceWithSnapshot = LicenceRow & { snapshot_id: string }

export async function lockLicence(sql: Sql, scope: LicenceScope): Promise<LicenceWithSnapshot | undefined> {
  const [row] = await sql<LicenceWithSnapshot[]>`
    select ${licenceColumns(sql)}, l.snapshot_id from licences l where ${inScope(sql, scope)} for update`
  return row
}

const scopeColumns = {
  licence_id: 'text',
  account_id: 'text',
  application_id: 'text',
  actor: 'text',
} as const

type ScopeOfActor = LicenceScope & { actor?: string }

const scopeRow = ({ licenceId, accountId, onlyApplicationId, actor }: ScopeOfActor) => {
  return { licence_id: licenceId, account_id: accountId, application_id: onlyApplicationId, actor }
}

/** Joins the licences `l` of these scopes to `wanted`, the rows of the scopes. */
export const joinScopes = (sql: Sql, scopes: ScopeOfActor[]) => sql`
  ${rowsOf(sql, scopeColumns, scopes.map(scopeRow))} wanted
  join licences l on l.id = wanted.licence_id and l.account_id = wanted.account_id
    and (wanted.application_id is null or l.application_id = wanted.application_id)`

/** The licences of these scopes, in their order. */
export async function findLicences(sql: Sql, scopes: LicenceScope[]): Promise<(FoundLicence | undefined)[]> {
  const rows = await sql<(FoundLicence & { ordinality: bigint })[]>`
    select ${stateColumns(sql)}, p.status as plan_status, wanted.ordinality
    from ${joinScopes(sql, scopes)} join plans p on p.id = l.plan_id`
  return inOrderOf(scopes, rows)
}

/** Whether a statement waits for rows that other transactions have locked, or skips them. */
export type OnLocked = 'wait' | 'skip'

export const skipLocked = (sql: Sql, onLocked: OnLocked) => (onLocked === 'skip' ? sql`skip locked` : sql``)

/**
 * Selects licences that have one of these statuses and, if given, one of these plans, each for the actor of its scope.
 * Several licences are selected only with `skip`: then no order of locks can deadlock.
 */
export const licencesToChange = (
  sql: Sql,
  scopes: (LicenceScope & { actor: string })[],
  {
    from,
    planIds,
    onLocked,
  }: { from: readonly LicenceStatus[]; planIds?: string[] | undefined; onLocked: OnLocked },
) => sql`
  select l.id, l.status, wanted.actor
  from ${joinScopes(sql, scopes)}
  where ${statusIn(sql, from)} ${planIds ? sql`and l.plan_id = any(${planIds}::text[])` : sql``}
  for update of l ${skipLocked(sql, onLocked)}`

/** Locks the plans of licences that have this status, shared, so that they cannot be archived meanwhile. */
export async function lockPlans(
  sql: Sql,
  scopes: LicenceScope[],
  { status, onLocked }: { status: PlanStatus; onLocked: OnLocked },
): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from plans
    where id in (select l.plan_id from ${joinScopes(sql, scopes)}) and status = ${status}
    order by id for share ${skipLocked(sql, onLocked)}`
  return rows.map(({ id }) => id)
}

export type Changed = LicenceRow & { former_status: LicenceStatus }

/** The columns for events, counters and the position of the next step. */
export type ChangedUncounted = ChangedLicence &
  Pick<Changed, 'plan_id' | 'former_status'> & { expires_on: Date | null }

/**
 * A subquery that locks licences `for update` and returns their id and status, and the actor of the change.
 * If it waits for the locks of several, it sorts the ids first (`offset 0` forces this order) and locks one by one: two such
 * statements cannot deadlock, and no licence beyond the limit is locked.
 */
export type Selection = Statement

/**
 * Locks the licences of `selection`, changes them, and writes their history and the plans' counters.
 */
export async function changeLicences(sql: Sql, selection: Selection, change: BulkChange): Promise<Changed[]> {
  return sql<Changed[]>`
    with ${changed(sql, selection, change)}, counted as (${countChanges(sql, sql`changed`)})
    select ${licenceColumns(sql)}, l.former_status from changed l`
}

/** Like `changeLicences`, without the plans' counters: the caller changes them once, at the end. */
export async function changeLicencesUncounted(
  sql: Sql,
  selection: Selection,
  change: BulkChange,
  { cause, order }: { cause: string | undefined; order: Statement },
): Promise<ChangedUncounted[]> {
  return sql<ChangedUncounted[]>`
    with ${changed(sql, selection, change, cause)}
    select l.id, l.account_id, l.application_id, l.plan_id, l.status, l.status_reason, l.expires_on, l.former_status
    from changed l order by ${order}`
}

/**
 * The current time, or a time after every known event of the licence's purchases, which have the processor's times.
 */
const timeAfterKnownEvents = (sql: Sql) =>
  sql`greatest(clock_timestamp(), l.latest_event_at + interval '1 millisecond')`

const changed = (sql: Sql, selection: Selection, change: BulkChange, cause?: string) => sql`
  former as materialized (${selection}),
  changed as (
    update licences l set
      status = ${change.to},
      status_reason = ${change.reason ?? null},
      ${change.hold ? sql`hold = ${change.hold},` : sql``}
      ${change.ignoresEarlierPaymentProblems ? sql`purchase = 'paid', reactivated_at = ${timeAfterKnownEvents(sql)},` : sql``}
      updated_at = clock_timestamp()
    from former where l.id = former.id
    returning ${licenceColumns(sql)}, former.status as former_status, former.actor
  ),
  recorded as (
    insert into licence_history (licence_id, at, type, from_status, to_status, actor, cause)
    select id, updated_at, ${announcements[change.to].history}, former_status, status, actor, ${cause ?? null}
    from changed order by id
  )`

/** Adds the changes in a query (plan_id, former_status, status) to the plans' counters. */
const countChanges = (sql: Sql, from: Statement) => sql`
  insert into plan_counts (plan_id, shard, active)
  select plan_id, pg_backend_pid() % 16, sum((status = 'active')::int - (former_status = 'active')::int)
  from ${from}
  group by plan_id
  having sum((status = 'active')::int - (former_status = 'active')::int) <> 0
  order by plan_id
  on conflict (plan_id, shard) do update set active = plan_counts.active + excluded.active`

/** Adds to the plans' counters. In the lock order only revocation lists and the outbox come after them. */
export async function addToPlanCounts(sql: Sql, changes: ReadonlyMap<string, number>): Promise<void> {
  const rows = [...changes].flatMap(([plan_id, active]) => (active === 0 ? [] : [{ plan_id, active }]))
  if (rows.length === 0) return
  await sql`
    insert into plan_counts (plan_id, shard, active)
    select plan_id, pg_backend_pid() % 16, active
    from ${rowsOf(sql, { plan_id: 'text', active: 'bigint' }, rows)} change order by plan_id
    on conflict (plan_id, shard) do update set active = plan_counts.active + excluded.active`
}
