import type { Sql, Statement } from '@licensing/database/connect'
import { stays } from '@licensing/moves/move-queries'
import { insertRows, rowsOf } from '@licensing/database/row-queries'
import { databaseTime } from '@licensing/database/time-queries'
import { skipLocked } from '../lifecycle/licence-queries.ts'
import type { OnLocked } from '../lifecycle/licence-queries.ts'
import type { PlanRow } from '../plans/plan-queries.ts'
import { recentPurchases } from './governing-purchase.ts'
import type { Purchase, RecordedEffect } from './purchase.ts'
import { lockedColumns } from './purchased-licence.ts'
import type { LockedLicence } from './purchased-licence.ts'

/** A licence, and the purchases whose rows a transaction changes. */
export interface Wanted {
  licenceId: string
  purchaseRefs: string[]
}

/**
 * The purchases `p` that can govern the licences `l` before or after the named purchases change: the named ones and the one
 * that governs it now, the latest valid one, those that fell last, the first one, and the latest ones; and the one that
 * includes updates for the longest time. Each is read from an
 * index, however many purchases a licence has. `offset 0` forces look-ups, whatever the planner's estimates are.
 */
const decidingPurchases = (sql: Sql, wanted: Wanted[], now: Date) => sql`
  ${wantedRows(sql, wanted)}
  join licences l on l.id = wanted.licence_id
  cross join lateral (select array_remove(wanted.purchase_refs || l.governed_by, null) as refs) named
  cross join lateral (
    select purchase_ref from purchases
    where application_id = l.application_id and purchase_ref = any(named.refs) and licence_id = l.id
    union
    (select purchase_ref from purchases where licence_id = l.id
      order by ordered_at desc, purchase_ref desc limit ${recentPurchases})
    union
    (select purchase_ref from purchases where licence_id = l.id order by ordered_at, purchase_ref limit 1)
    union
    (select purchase_ref from purchases
      where licence_id = l.id and not fallen and (falls_at is null or falls_at > ${now})
        and purchase_ref <> all(named.refs)
      order by ordered_at desc, purchase_ref desc limit 1)
    union
    (select purchase_ref from purchases
      where licence_id = l.id and fallen and falls_at is not null and purchase_ref <> all(named.refs)
      order by falls_at desc, ordered_at desc, purchase_ref desc limit 1)
    union
    (select purchase_ref from purchases
      where licence_id = l.id and not fallen and falls_at <= ${now} and purchase_ref <> all(named.refs)
      order by falls_at desc, ordered_at desc, purchase_ref desc limit 1)
    union
    (select purchase_ref from purchases
      where licence_id = l.id and paid_updates_until is not null and purchase_ref <> all(named.refs)
      order by paid_updates_until desc limit 1)
  ) deciding
  cross join lateral (
    select * from purchases
    where application_id = l.application_id and purchase_ref = deciding.purchase_ref offset 0
  ) p`

const wantedRows = (sql: Sql, wanted: Wanted[]) => {
  const rows = wanted.map(({ licenceId, purchaseRefs }) => {
    return { licence_id: licenceId, purchase_refs: purchaseRefs }
  })
  return sql`${rowsOf(sql, { licence_id: 'text', purchase_refs: 'text[]' }, rows)} wanted`
}

/**
 * Locks these plans, and those of the licences and of the purchases that can govern them: shared, in the order of their ids.
 */
export async function lockPlansOf(
  sql: Sql,
  wanted: Wanted[],
  planIds: string[],
  onLocked: OnLocked = 'wait',
): Promise<Map<string, PlanRow>> {
  const now = await databaseTime(sql)
  const rows = await sql<PlanRow[]>`
    select id, account_id, application_id, status, snapshot_id from plans
    where id in (
      select id from unnest(${planIds}::text[]) as id
      union select plan_id from licences where id = any(${wanted.map(({ licenceId }) => licenceId)}::text[])
      union select p.plan_id from ${decidingPurchases(sql, wanted, now)}
      union select p.bought_plan_id from ${decidingPurchases(sql, wanted, now)}
    )
    order by id for share ${skipLocked(sql, onLocked)}`
  return new Map(rows.map((row) => [row.id, row]))
}

const lockedColumnList = lockedColumns.map((name) => `l.${name}`).join(', ')

export async function lockLicences(sql: Sql, ids: string[], onLocked: OnLocked): Promise<LockedLicence[]> {
  return sql<LockedLicence[]>`
    select ${sql.unsafe(lockedColumnList)} from licences l
    where l.id = any(${ids}::text[]) order by l.id for update ${skipLocked(sql, onLocked)}`
}

const purchaseColumns = (sql: Sql) => sql`
  p.application_id, p.purchase_ref, p.account_id, p.licence_id, p.ordered_at, p.plan_id, p.snapshot_id, p.ends_at,
  p.bought_plan_id, p.bought_snapshot_id, p.bought_ends_at, p.end_revision, p.terminated_at, p.money_returned,
  p.renewed_at, p.failed_at, p.partially_refunded_at, p.failed_since, p.partially_refunded_since, p.first_inquiry_at,
  p.inquiry_at, p.inquiry_closed_at,
  p.renews, p.renews_since, p.cancelled_at, p.cancelled_to, p.updates_until, p.paid_updates_until`

/** The purchases that can govern these licences, which the transaction has locked. */
export async function findDecidingPurchases(sql: Sql, wanted: Wanted[], now: Date): Promise<Purchase[]> {
  return sql<Purchase[]>`
    select ${purchaseColumns(sql)},
      case when p.purchase_ref = any(wanted.purchase_refs) then p.metadata else '{}' end as metadata
    from ${decidingPurchases(sql, wanted, now)}`
}

/** For each of these purchases, those later ones that fell last. */
export async function findLastFallenAfter(
  sql: Sql,
  purchases: (Pick<Purchase, 'licence_id' | 'ordered_at' | 'purchase_ref'> & { others_than: string[] })[],
  now: Date,
): Promise<Purchase[]> {
  if (purchases.length === 0) return []
  const columns = {
    licence_id: 'text',
    ordered_at: 'timestamptz',
    purchase_ref: 'text',
    others_than: 'text[]',
  } as const
  // `offset 0` forces the order of the index: usually its first row is the one.
  const lastOf = (fallen: Statement) => sql`
    select purchase_ref from (
      select ordered_at, purchase_ref from purchases where licence_id = earlier.licence_id and ${fallen}
      order by falls_at desc offset 0
    ) fell
    where (ordered_at, purchase_ref) > (earlier.ordered_at, earlier.purchase_ref)
      and purchase_ref <> all(earlier.others_than)
    limit 1`
  return sql<Purchase[]>`
    select ${purchaseColumns(sql)}, '{}'::jsonb as metadata
    from ${rowsOf(sql, columns, purchases)} earlier
    join licences l on l.id = earlier.licence_id
    cross join lateral (
      (${lastOf(sql`fallen and falls_at is not null`)})
      union
      (${lastOf(sql`not fallen and falls_at <= ${now}`)})
    ) last
    cross join lateral (
      select * from purchases where application_id = l.application_id and purchase_ref = last.purchase_ref offset 0
    ) p`
}

type EffectRow = RecordedEffect & { licence_id: string }

/** An effect that may have been recorded. */
export type EffectName = Pick<EffectRow, 'licence_id' | 'purchase_ref' | 'kind' | 'cause'>

/** Which of these effects have been recorded. */
export async function findKnownEffects(sql: Sql, effects: EffectName[]): Promise<EffectName[]> {
  if (effects.length === 0) return []
  return sql<EffectName[]>`
    select e.licence_id, e.purchase_ref, e.kind, e.cause
    from ${rowsOf(sql, 'purchase_effects', effects)} wanted
    cross join lateral (
      select * from purchase_effects
      where licence_id = wanted.licence_id and purchase_ref = wanted.purchase_ref and kind = wanted.kind
        and cause = wanted.cause offset 0
    ) e`
}

/** A purchase, and the time at which an effect ends it; null: another effect. */
export type RenewalsUntil = Pick<EffectRow, 'licence_id' | 'purchase_ref'> & { at: Date | null }

/**
 * The renewals that decide about the plan, the end and the updates of these purchases, and the latest ones, until the given time or the
 * purchase's end, if that is earlier.
 */
export async function findDecidingRenewals(sql: Sql, wanted: RenewalsUntil[]): Promise<EffectRow[]> {
  if (wanted.length === 0) return []
  const own = sql`
    licence_id = p.licence_id and purchase_ref = p.purchase_ref and kind = 'renewed'
    and at <= coalesce(
      least(p.terminated_at, case when p.terminated_at is not null then p.cancelled_at end, wanted.at), 'infinity')`
  return sql<EffectRow[]>`
    select distinct e.licence_id, e.purchase_ref, e.kind, e.cause, e.at, e.ends_at, e.end_revision, e.plan_id, e.snapshot_id,
      e.updates_until
    from ${rowsOf(sql, 'purchase_effects', wanted)} wanted
    join licences l on l.id = wanted.licence_id
    cross join lateral (
      select * from purchases where application_id = l.application_id and purchase_ref = wanted.purchase_ref offset 0
    ) p
    cross join lateral (
      (select * from purchase_effects where ${own} and end_revision = p.end_revision order by ends_at desc limit 1)
      union all
      (select * from purchase_effects where ${own} and plan_id is not null order by at desc, cause desc limit 1)
      union all
      (select * from purchase_effects where ${own} and updates_until is not null order by updates_until desc limit 1)
      union all
      (select * from purchase_effects where ${own} order by at desc limit 1)
    ) e`
}

export async function upsertPurchases(
  sql: Sql,
  purchases: (Purchase & { fallen: boolean })[],
): Promise<void> {
  await insertRows(
    sql,
    'purchases',
    purchases,
    sql`on conflict (application_id, purchase_ref) do update set
      ordered_at = excluded.ordered_at, plan_id = excluded.plan_id, snapshot_id = excluded.snapshot_id,
      ends_at = excluded.ends_at, bought_plan_id = excluded.bought_plan_id,
      bought_snapshot_id = excluded.bought_snapshot_id, bought_ends_at = excluded.bought_ends_at,
      end_revision = excluded.end_revision, terminated_at = excluded.terminated_at,
      money_returned = excluded.money_returned, renewed_at = excluded.renewed_at, failed_at = excluded.failed_at,
      partially_refunded_at = excluded.partially_refunded_at, failed_since = excluded.failed_since,
      partially_refunded_since = excluded.partially_refunded_since, first_inquiry_at = excluded.first_inquiry_at,
      inquiry_at = excluded.inquiry_at, inquiry_closed_at = excluded.inquiry_closed_at, renews = excluded.renews,
      renews_since = excluded.renews_since, cancelled_at = excluded.cancelled_at, cancelled_to = excluded.cancelled_to,
      paid_updates_until = excluded.paid_updates_until, fallen = excluded.fallen`,
  )
}

/**
 * Marks purchases whose end has passed, so that those which are still valid are found without them. Skips purchases that other
 * transactions are changing: these write the mark themselves.
 *
 * @returns how many; if `limit`, there may be others
 */
export async function markFallen(sql: Sql, limit: number): Promise<number> {
  const { count } = await sql`
    update purchases set fallen = true where ctid = any(array(
      select ctid from purchases where not fallen and falls_at <= now() and ${stays(sql, 'account_id')}
      order by falls_at limit ${limit} for update skip locked
    ))`
  return count
}

/** The condition that the purchase of the table `purchases` is valid. */
export const isValidPurchase = (sql: Sql) => sql`not fallen and (falls_at is null or falls_at > now())`

/** The condition that a subscription governs the licence `l` that the processor will charge again. */
export const isGovernedByRenewingSubscription = (sql: Sql) => sql`
  exists (
    select from purchases governing
    where governing.application_id = l.application_id and governing.purchase_ref = l.governed_by and governing.renews
  )`

/** Replaces the snapshot in the latest renewal that changed the plan of a purchase to its current plan. */
export async function replaceRenewedSnapshot(
  sql: Sql,
  { licence_id, purchase_ref, plan_id }: Pick<Purchase, 'licence_id' | 'purchase_ref' | 'plan_id'>,
  snapshotId: string,
): Promise<void> {
  await sql`
    update purchase_effects set snapshot_id = ${snapshotId}
    where plan_id = ${plan_id} and ctid = (
      select ctid from purchase_effects
      where licence_id = ${licence_id} and purchase_ref = ${purchase_ref} and kind = 'renewed' and plan_id is not null
      order by at desc, cause desc limit 1
    )`
}

export async function insertEffects(sql: Sql, effects: EffectRow[]): Promise<void> {
  await insertRows(sql, 'purchase_effects', effects)
}
