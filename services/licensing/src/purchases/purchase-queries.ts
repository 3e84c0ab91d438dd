import type { Sql } from '@licensing/database/connect'
import { inOrderOf, insertRows } from '@licensing/database/row-queries'
import { skipLocked, stateColumns, statusIn } from '../lifecycle/licence-queries.ts'
import type { OnLocked } from '../lifecycle/licence-queries.ts'
import { payable } from '../lifecycle/licence.ts'
import type { PlanRow } from '../plans/plan-queries.ts'
import type { Purchase, RecordedEffect } from './purchase.ts'
import type { LockedLicence } from './purchased-licence.ts'

/** A customer of an application. */
export interface Customer {
  accountId: string
  applicationId: string
  externalRef: string
}

/** Locks customers, so that two payments of one customer do not both create a licence. */
export async function lockCustomers(sql: Sql, customers: Customer[]): Promise<void> {
  await sql`
    select pg_advisory_xact_lock(hashtextextended(customer, 0)) from (
      select distinct customer
      from unnest(${customers.map((one) => `${one.applicationId} ${one.externalRef}`)}::text[]) as customer
      order by customer offset 0
    ) as ordered`
}

export interface PurchaseName {
  accountId: string
  applicationId: string
  purchaseRef: string
}

/** The licence that a purchase provisioned. */
export interface Provision {
  licence_id: string
  /** Whether it created the licence. */
  created: boolean
}

/** The licences that these purchases provisioned, in the order of `names`. */
export async function findProvisions(sql: Sql, names: PurchaseName[]): Promise<(Provision | undefined)[]> {
  const rows = await sql<(Provision & { place: number })[]>`
    select name.place::int, p.licence_id, p.created
    from unnest(
      ${names.map((name) => name.accountId)}::text[],
      ${names.map((name) => name.applicationId)}::text[],
      ${names.map((name) => name.purchaseRef)}::text[]
    ) with ordinality as name (account_id, application_id, purchase_ref, place)
    join provisions p on p.application_id = name.application_id and p.payment_ref = name.purchase_ref
    join licences l on l.id = p.licence_id and l.account_id = name.account_id`
  return inOrderOf(names, rows)
}

/** The newest licence of each customer that a payment can change, in the order of `customers`. */
export async function findNewestLicences(sql: Sql, customers: Customer[]): Promise<(string | undefined)[]> {
  const rows = await sql<{ place: number; id: string }[]>`
    select customer.place::int, l.id
    from unnest(
      ${customers.map((customer) => customer.accountId)}::text[],
      ${customers.map((customer) => customer.applicationId)}::text[],
      ${customers.map((customer) => customer.externalRef)}::text[]
    ) with ordinality as customer (account_id, application_id, external_ref, place)
    cross join lateral (
      select id from licences
      where application_id = customer.application_id and account_id = customer.account_id
        and external_ref = customer.external_ref and ${statusIn(sql, payable)}
      order by id desc limit 1
    ) l`
  return inOrderOf(customers, rows).map((row) => row?.id)
}

/** Locks these plans, and the plans of the licences and of their purchases: shared, in the order of their ids. */
export async function lockPlansOf(
  sql: Sql,
  licenceIds: string[],
  planIds: string[],
  onLocked: OnLocked = 'wait',
): Promise<Map<string, PlanRow>> {
  const rows = await sql<PlanRow[]>`
    select p.id, p.account_id, p.application_id, p.status, p.snapshot_id from plans p
    where p.id in (
      select id from unnest(${planIds}::text[]) as id
      union select plan_id from licences where id = any(${licenceIds}::text[])
      union select plan_id from purchases where licence_id = any(${licenceIds}::text[])
    )
    order by p.id for share ${skipLocked(sql, onLocked)}`
  return new Map(rows.map((row) => [row.id, row]))
}

export async function lockLicences(sql: Sql, ids: string[], onLocked: OnLocked): Promise<LockedLicence[]> {
  return sql<LockedLicence[]>`
    select ${stateColumns(sql)}, l.snapshot_id, l.rests_on, l.reactivated_at from licences l
    where l.id = any(${ids}::text[]) order by l.id for update ${skipLocked(sql, onLocked)}`
}

export async function findPurchases(sql: Sql, licenceIds: string[]): Promise<Purchase[]> {
  return sql<Purchase[]>`
    select application_id, purchase_ref, account_id, licence_id, ordered_at, plan_id, snapshot_id, ends_at,
      bought_plan_id, bought_snapshot_id, bought_ends_at, terminated_at, money_returned, renews, updates_until, metadata
    from purchases where licence_id = any(${licenceIds}::text[]) order by purchase_ref`
}

export async function findEffects(
  sql: Sql,
  licenceIds: string[],
): Promise<(RecordedEffect & { licence_id: string })[]> {
  return sql<(RecordedEffect & { licence_id: string })[]>`
    select licence_id, purchase_ref, kind, cause, at, ends_at, plan_id, snapshot_id, updates_until from purchase_effects
    where licence_id = any(${licenceIds}::text[])`
}

export async function upsertPurchases(sql: Sql, purchases: Purchase[]): Promise<void> {
  await insertRows(
    sql,
    'purchases',
    purchases,
    sql`on conflict (application_id, purchase_ref) do update set
      ordered_at = excluded.ordered_at, plan_id = excluded.plan_id, snapshot_id = excluded.snapshot_id,
      ends_at = excluded.ends_at, bought_plan_id = excluded.bought_plan_id,
      bought_snapshot_id = excluded.bought_snapshot_id, bought_ends_at = excluded.bought_ends_at,
      terminated_at = excluded.terminated_at, money_returned = excluded.money_returned, renews = excluded.renews`,
  )
}

/** The condition that the licence `l` rests on a subscription that the processor will charge again. */
export const restsOnRenewingSubscription = (sql: Sql) => sql`
  exists (
    select from purchases rested_on
    where rested_on.licence_id = l.id and rested_on.renews
      and (l.rests_on is null or rested_on.purchase_ref = l.rests_on)
  )`

/** Removes the ends that renewals gave the purchase until now, because the vendor has set another end. */
export async function clearRenewedEnds(
  sql: Sql,
  { licence_id, purchase_ref }: Pick<Purchase, 'licence_id' | 'purchase_ref'>,
): Promise<void> {
  await sql`
    update purchase_effects set ends_at = null
    where licence_id = ${licence_id} and purchase_ref = ${purchase_ref} and kind = 'renewed'`
}

/** Replaces the snapshot in those renewals of a purchase that changed the plan to its current plan. */
export async function replaceRenewedSnapshots(
  sql: Sql,
  { licence_id, purchase_ref, plan_id }: Pick<Purchase, 'licence_id' | 'purchase_ref' | 'plan_id'>,
  snapshotId: string,
): Promise<void> {
  await sql`
    update purchase_effects set snapshot_id = ${snapshotId}
    where licence_id = ${licence_id} and purchase_ref = ${purchase_ref} and plan_id = ${plan_id}`
}

export async function insertEffects(
  sql: Sql,
  effects: (RecordedEffect & { licence_id: string })[],
): Promise<void> {
  await insertRows(sql, 'purchase_effects', effects)
}

/** A payment that provisioned a licence. */
export interface NewProvision extends Provision {
  application_id: string
  payment_ref: string
}

export async function insertProvisions(sql: Sql, provisions: NewProvision[]): Promise<void> {
  await insertRows(sql, 'provisions', provisions)
}
