import type { Database } from '@licensing/database/connect'
import { transaction, withoutTimeLimit } from '@licensing/database/transaction'
import type { Stack } from '@licensing/test-support/stack-shape'
import { givenDefinitions, givenPlan } from '../vendor.ts'

/** A vendor with many licences. */
export interface Population {
  count: number
  /** Most licences, of every status. */
  commonPlan: string
  /** A tenth of all, every one active. */
  archivePlan: string
  /** A tenth of all, every one active. */
  duePlan: string
  /** Ten active licences. */
  planOfTen: string
  /** A plan without licences. */
  emptyPlan: string
  /** A time since which some fifty licences were seen. */
  recently: string
  /** A time since which a tenth of all seen licences were seen. */
  lately: string
  /** A time before any licence was seen. */
  longAgo: string
}

const statuses = [
  ...Array.from({ length: 80 }, () => 'active'),
  ...Array.from({ length: 8 }, () => 'suspended'),
  ...Array.from({ length: 5 }, () => 'revoked'),
  ...Array.from({ length: 4 }, () => 'expired'),
  ...Array.from({ length: 2 }, () => 'retired'),
  'downgraded',
]

/** The id of licence number n. Ids increase with n, and ids that services create later are greater. */
export function licenceId(n: number): string {
  return `lic_0${String(n).padStart(25, '0')}`
}

/** The key of licence number n. */
export function licenceKey(n: number): string {
  const digits = String(n).padStart(10, '0')
  return `BENCH-00000-00000-${digits.slice(0, 5)}-${digits.slice(5)}`
}

/** Inserts `count` licences into licensing's database, each with history, host and last call. */
export async function givenPopulation(stack: Stack, sql: Database, count: number): Promise<Population> {
  await givenDefinitions(stack)
  const plans = {
    commonPlan: await givenPlan(stack, 'common'),
    archivePlan: await givenPlan(stack, 'to-be-archived'),
    duePlan: await givenPlan(stack, 'to-fall-due'),
    planOfTen: await givenPlan(stack, 'of-ten'),
    emptyPlan: await givenPlan(stack, 'empty'),
  }
  await transaction(sql, async (tx) => {
    await withoutTimeLimit(tx)
    // Building the indexes after the rows takes a third of the time.
    const indexes = await tx<{ name: string; definition: string }[]>`
      select indexname as name, indexdef as definition from pg_indexes
      where schemaname = current_schema() and tablename in ('licences', 'licence_statuses', 'licence_activity')
        and indexname not in (select conname from pg_constraint)`
    for (const { name } of indexes) await tx`drop index ${tx(name)}`
    await tx`
      insert into snapshots (id, entitlements)
      select snapshot_id, entitlements from plans where id = ${plans.commonPlan} on conflict do nothing`
    await tx`
      insert into licences (id, key, account_id, application_id, plan_id, status, status_reason, hold, purchase,
        external_ref, snapshot_id, seen, idempotency_key)
      select id, 'BENCH-00000-00000-' || substr(digits, 1, 5) || '-' || substr(digits, 6, 5), ${stack.accountId},
        ${stack.appId}, plan_id, status, case status when 'suspended' then 'manual' end,
        case status when 'suspended' then 'manual' when 'revoked' then status when 'retired' then status else 'none' end,
        case status when 'expired' then 'cancelled' when 'downgraded' then 'partially_refunded' else 'paid' end,
        'customer-' || n % ${Math.max(10, count / 10)}, (select snapshot_id from plans where id = ${plans.commonPlan}),
        n % 2 = 0, 'bench-' || n
      from (
        select n, 'lic_0' || lpad(n::text, 25, '0') as id, lpad(n::text, 10, '0') as digits, plan_id,
          case plan_id when ${plans.commonPlan} then (${statuses}::text[])[1 + n * 7919 % 100] else 'active' end
            as status
        from generate_series(1, ${count}::bigint) n cross join lateral (select case
          when n <= 10 then ${plans.planOfTen}::text when n % 10 = 1 then ${plans.archivePlan}::text
          when n % 10 = 2 then ${plans.duePlan}::text else ${plans.commonPlan}::text end as plan_id) plan
      ) numbered`
    await tx`
      insert into licence_history (licence_id, type, to_status, actor)
      select id, 'issued', 'active', 'bench' from licences where account_id = ${stack.accountId} order by id`
    // A fifth of all licences have the same host. The others share a host in groups of ten.
    await tx`
      insert into licence_hosts (application_id, host, licence_id)
      select ${stack.appId}, case when n % 5 = 0 then 'common.example.com' else 'host-' || n / 10 || '.example.com' end,
        'lic_0' || lpad(n::text, 25, '0')
      from generate_series(1, ${count}::bigint) n`
    // The time when a licence was last seen does not depend on its age.
    await tx`
      insert into licence_activity (licence_id, application_id, last_seen_at)
      select 'lic_0' || lpad(n::text, 25, '0'), ${stack.appId},
        now() - (n * 7919 % ${count}::bigint) * interval '10 seconds'
      from generate_series(2, ${count}::bigint, 2) n`
    await tx`
      insert into plan_counts (plan_id, shard, active)
      select plan_id, abs(hashtext(id)) % 16, count(*) from licences
      where account_id = ${stack.accountId} and status = 'active' group by 1, 2`
    for (const { definition } of indexes) await tx.unsafe(definition)
  })
  const tables = [
    'licences',
    'licence_statuses',
    'licence_history',
    'licence_hosts',
    'licence_activity',
    'plan_counts',
  ]
  for (const table of tables) {
    await sql`vacuum analyze ${sql(table)}`
  }
  const ago = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString()
  return { count, ...plans, recently: ago(100 * 10), lately: ago(count), longAgo: ago(count * 10 + 3_600) }
}
