import type { Sql } from '@licensing/database/connect'
import { stays } from '@licensing/moves/move-queries'
import { rowsOf } from '@licensing/database/row-queries'

export interface PlanVersion {
  plan_id: string
  account_id: string
  application_id: string
  version: bigint
}

/** Adds to the list the plans whose copy is missing or older than the given version. */
export async function awaitPlans(sql: Sql, versions: PlanVersion[]): Promise<void> {
  await sql`
    insert into awaited_plans as awaited (plan_id, account_id, application_id, version)
    select changed.plan_id, changed.account_id, changed.application_id, changed.version
    from ${rowsOf(sql, 'awaited_plans', versions)} changed
    where not exists (select from plans p where p.id = changed.plan_id and p.version >= changed.version)
    order by changed.plan_id
    on conflict (plan_id) do update set version = greatest(awaited.version, excluded.version)`
}

/** Removes the plans whose copy has arrived. */
export async function removeArrivedPlans(sql: Sql): Promise<void> {
  await sql`
    delete from awaited_plans awaited using plans p
    where p.id = awaited.plan_id and p.version >= awaited.version`
}

export async function hasAwaitedPlans(sql: Sql): Promise<boolean> {
  const rows = await sql`select from awaited_plans limit 1`
  return rows.length > 0
}

/** The plans whose push is overdue, the longest first. */
export async function listAwaitedPlans(sql: Sql, pushTakesMs: number, limit: number): Promise<PlanVersion[]> {
  return sql<PlanVersion[]>`
    select plan_id, account_id, application_id, version from awaited_plans
    where since <= now() - ${pushTakesMs} * interval '1 millisecond' and ask_at <= now()
      and ${stays(sql, 'account_id')}
    order by ask_at, plan_id limit ${limit}`
}

/** Catalog has answered: removes the plan, unless an event has named a higher version meanwhile. */
export async function settleAwaitedPlan(sql: Sql, { plan_id: id, version }: PlanVersion): Promise<void> {
  await sql`delete from awaited_plans where plan_id = ${id} and version = ${version}`
}

/** Catalog is asked again later: the pause is as long as the plan has waited, from 2 to 30 seconds. */
export async function postponeAwaitedPlan(sql: Sql, { plan_id: id }: PlanVersion): Promise<void> {
  await sql`
    update awaited_plans
    set ask_at = now() + greatest(interval '2 seconds', least(interval '30 seconds', now() - since))
    where plan_id = ${id}`
}
