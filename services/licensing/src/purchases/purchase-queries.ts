import type { Sql } from '@licensing/database/connect'
import { standingColumns, statusIn } from '../lifecycle/licence-queries.ts'
import { held } from '../lifecycle/licence.ts'
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

/** What these purchases provisioned, in the order given. */
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
  const found = new Map(rows.map((row) => [row.place, row]))
  return names.map((_, at) => found.get(at + 1))
}

/** The newest licence of each customer that a payment can change, in the order given. */
export async function findNewestHeld(sql: Sql, customers: Customer[]): Promise<(string | undefined)[]> {
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
        and external_ref = customer.external_ref and ${statusIn(sql, held)}
      order by id desc limit 1
    ) l`
  const found = new Map(rows.map((row) => [row.place, row.id]))
  return customers.map((_, at) => found.get(at + 1))
}

/** What to do with rows that other transactions have locked. */
export type Busy = 'wait' | 'skip'

/** Locks these plans, those of the licences and those of the licences' purchases: shared, in the order of their ids. */
export async function lockPlansOf(
  sql: Sql,
  licenceIds: string[],
  planIds: string[],
  busy: Busy = 'wait',
): Promise<Map<string, PlanRow>> {
  const rows = await sql<PlanRow[]>`
    select p.id, p.account_id, p.application_id, p.status, p.snapshot_id from plans p
    where p.id in (
      select id from unnest(${planIds}::text[]) as id
      union select plan_id from licences where id = any(${licenceIds}::text[])
      union select plan_id from purchases where licence_id = any(${licenceIds}::text[])
    )
    order by p.id for share ${busy === 'skip' ? sql`skip locked` : sql``}`
  return new Map(rows.map((row) => [row.id, row]))
}

export async function lockLicences(sql: Sql, ids: string[], busy: Busy): Promise<LockedLicence[]> {
  return sql<LockedLicence[]>`
    select ${standingColumns(sql)}, l.snapshot_id, l.rests_on, l.reactivated_at from licences l
    where l.id = any(${ids}::text[]) order by l.id for update ${busy === 'skip' ? sql`skip locked` : sql``}`
}

export async function findPurchases(sql: Sql, licenceIds: string[]): Promise<Purchase[]> {
  return sql<Purchase[]>`
    select application_id, purchase_ref, account_id, licence_id, ordered_at, plan_id, snapshot_id, ends_at,
      bought_plan_id, bought_snapshot_id, bought_ends_at, terminated_at, money_returned, renews, updates_until
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
  if (purchases.length === 0) return
  const column = <K extends keyof Purchase>(name: K) => purchases.map((purchase) => purchase[name])
  const times = (name: 'ordered_at' | 'ends_at' | 'bought_ends_at' | 'terminated_at' | 'updates_until') =>
    purchases.map((purchase) => purchase[name]?.toISOString() ?? null)
  await sql`
    insert into purchases (application_id, purchase_ref, account_id, licence_id, ordered_at, plan_id, snapshot_id,
      ends_at, bought_plan_id, bought_snapshot_id, bought_ends_at, terminated_at, money_returned, renews, updates_until)
    select application_id, purchase_ref, account_id, licence_id, ordered_at::timestamptz, plan_id, snapshot_id,
      ends_at::timestamptz, bought_plan_id, bought_snapshot_id, bought_ends_at::timestamptz, terminated_at::timestamptz,
      money_returned::boolean, renews::boolean, updates_until::timestamptz
    from unnest(
      ${column('application_id')}::text[], ${column('purchase_ref')}::text[], ${column('account_id')}::text[],
      ${column('licence_id')}::text[], ${times('ordered_at')}::text[], ${column('plan_id')}::text[],
      ${column('snapshot_id')}::text[], ${times('ends_at')}::text[], ${column('bought_plan_id')}::text[],
      ${column('bought_snapshot_id')}::text[], ${times('bought_ends_at')}::text[], ${times('terminated_at')}::text[],
      ${column('money_returned').map(String)}::text[], ${column('renews').map(String)}::text[],
      ${times('updates_until')}::text[]
    ) as purchase (application_id, purchase_ref, account_id, licence_id, ordered_at, plan_id, snapshot_id, ends_at,
      bought_plan_id, bought_snapshot_id, bought_ends_at, terminated_at, money_returned, renews, updates_until)
    on conflict (application_id, purchase_ref) do update set
      ordered_at = excluded.ordered_at, plan_id = excluded.plan_id, snapshot_id = excluded.snapshot_id,
      ends_at = excluded.ends_at, bought_plan_id = excluded.bought_plan_id,
      bought_snapshot_id = excluded.bought_snapshot_id, bought_ends_at = excluded.bought_ends_at,
      terminated_at = excluded.terminated_at, money_returned = excluded.money_returned, renews = excluded.renews`
}

/** The condition that the licence `l` rests on a subscription that the processor will charge again. */
export const restsOnRenewingSubscription = (sql: Sql) => sql`
  exists (
    select from purchases rested_on
    where rested_on.licence_id = l.id and rested_on.renews
      and (l.rests_on is null or rested_on.purchase_ref = l.rests_on)
  )`

/** The vendor has set the purchase's end, which replaces the ends that its renewals brought until then. */
export async function forgetRenewedEnds(
  sql: Sql,
  { licence_id, purchase_ref }: Pick<Purchase, 'licence_id' | 'purchase_ref'>,
): Promise<void> {
  await sql`
    update purchase_effects set ends_at = null
    where licence_id = ${licence_id} and purchase_ref = ${purchase_ref} and kind = 'renewed'`
}

/** Renewals of a purchase that brought a plan bring another snapshot of that plan. */
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
  if (effects.length === 0) return
  await sql`
    insert into purchase_effects (licence_id, purchase_ref, kind, cause, at, ends_at, plan_id, snapshot_id,
      updates_until)
    select licence_id, purchase_ref, kind, cause, at::timestamptz, ends_at::timestamptz, plan_id, snapshot_id,
      updates_until::timestamptz
    from unnest(
      ${effects.map((effect) => effect.licence_id)}::text[], ${effects.map((effect) => effect.purchase_ref)}::text[],
      ${effects.map((effect) => effect.kind)}::text[], ${effects.map((effect) => effect.cause)}::text[],
      ${effects.map((effect) => effect.at.toISOString())}::text[],
      ${effects.map((effect) => effect.ends_at?.toISOString() ?? null)}::text[],
      ${effects.map((effect) => effect.plan_id)}::text[], ${effects.map((effect) => effect.snapshot_id)}::text[],
      ${effects.map((effect) => effect.updates_until?.toISOString() ?? null)}::text[]
    ) as effect (licence_id, purchase_ref, kind, cause, at, ends_at, plan_id, snapshot_id, updates_until)`
}

export async function insertProvisions(
  sql: Sql,
  provisions: { applicationId: string; paymentRef: string; licenceId: string; created: boolean }[],
): Promise<void> {
  if (provisions.length === 0) return
  await sql`
    insert into provisions (application_id, payment_ref, licence_id, created)
    select application_id, payment_ref, licence_id, created::boolean
    from unnest(
      ${provisions.map((one) => one.applicationId)}::text[], ${provisions.map((one) => one.paymentRef)}::text[],
      ${provisions.map((one) => one.licenceId)}::text[], ${provisions.map((one) => String(one.created))}::text[]
    ) as provision (application_id, payment_ref, licence_id, created)`
}

export async function databaseTime(sql: Sql): Promise<Date> {
  const [row] = await sql<{ now: Date }[]>`select clock_timestamp()::timestamptz(3) as now`
  return row!.now
}
