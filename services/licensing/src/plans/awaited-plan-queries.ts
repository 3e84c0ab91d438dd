import type { Sql } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'

export interface AwaitedPlan {
  plan_id: string
  account_id: string
  application_id: string
}

export interface PlanVersion extends AwaitedPlan {
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

/** The plans that have been awaited for at least this long, the longest first. */
export async function listAwaitedPlans(sql: Sql, forMs: number, limit: number): Promise<AwaitedPlan[]> {
  return sql<AwaitedPlan[]>`
    select plan_id, account_id, application_id from awaited_plans
    where since <= now() - ${forMs} * interval '1 millisecond' order by since, plan_id limit ${limit}`
}

/** Moves a plan to the end of the list. */
export async function postponeAwaitedPlan(sql: Sql, planId: string): Promise<void> {
  await sql`update awaited_plans set since = now() where plan_id = ${planId}`
}

/** Removes a plan that catalog does not have. */
export async function removeAwaitedPlan(sql: Sql, planId: string): Promise<void> {
  await sql`delete from awaited_plans where plan_id = ${planId}`
}
