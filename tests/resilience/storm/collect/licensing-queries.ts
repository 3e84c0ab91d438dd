import type { StormSql } from './databases.ts'
import type { Activation, Counter, HistoryEntry, Licence, Outcome, Provision } from '../outcome.ts'

export function listLicences(sql: StormSql): Promise<Licence[]> {
  return sql<Licence[]>`
    select id, application_id as "appId", plan_id as "planId", status, status_reason as "statusReason",
      external_ref as "externalRef", legacy_key as "legacyKey", idempotency_key as "idempotencyKey",
      max_activations as "maxActivations", (extract(epoch from expires_on) * 1000)::float8 as "expiresOn"
    from licences order by id`
}

export function listHistory(sql: StormSql): Promise<HistoryEntry[]> {
  return sql<HistoryEntry[]>`
    select position, licence_id as "licenceId", (extract(epoch from at) * 1000)::float8 as at, type,
      from_status as "from", to_status as "to", actor, cause
    from licence_history order by position`
}

export function listActivations(sql: StormSql): Promise<Activation[]> {
  return sql<Activation[]>`select id, licence_id as "licenceId", fingerprint from activations order by id`
}

export function listProvisions(sql: StormSql): Promise<Provision[]> {
  return sql<Provision[]>`
    select application_id as "appId", payment_ref as "paymentRef", licence_id as "licenceId" from provisions`
}

export function listRevocations(sql: StormSql): Promise<Outcome['revocations']> {
  return sql<Outcome['revocations']>`
    select application_id as "appId", version, licence_id as "licenceId" from revocations
    order by application_id, version`
}

export function listPlanRows(sql: StormSql): Promise<{ id: string; status: string; version: number }[]> {
  return sql<{ id: string; status: string; version: number }[]>`select id, status, version from plans`
}

export function countLicensing(sql: StormSql): Promise<Counter[]> {
  return sql<Counter[]>`
    with day as (
      select application_id, issued, imported, suspended, active_change, activations_new - activations_freed as held
      from application_days
      union all
      select application_id, 0, 0, 0, 0, activations_new from application_day_changes
      union all
      select application_id, issued, imported, suspended, active_change, -activations_freed
      from days_of_history(false)
    )
    select 'active licences by the days of ' || application_id as name, sum(active_change)::float8 as kept,
      (select count(*) from licences l where l.application_id = day.application_id and status = 'active')::float8
        as counted
    from day group by application_id
    union all
    select 'activations by the days of ' || application_id, sum(held)::float8,
      (select count(*) from activations a where a.application_id = day.application_id)::float8
    from day group by application_id
    union all
    select 'licences issued by the days', coalesce(sum(issued), 0)::float8,
      (select count(*) from licence_history where type = 'issued')::float8 from day
    union all
    select 'licences imported by the days', coalesce(sum(imported), 0)::float8,
      (select count(*) from licence_history where type = 'imported')::float8 from day
    union all
    select 'licences suspended by the days', coalesce(sum(suspended), 0)::float8,
      (select count(*) from licence_history where type = 'suspended')::float8 from day
    union all
    select 'active licences of ' || p.id as name,
      coalesce((select sum(active) from plan_counts c where c.plan_id = p.id), 0)::float8 as kept,
      (select count(*) from licences l where l.plan_id = p.id and l.status = 'active')::float8 as counted
    from plans p
    union all
    select 'statuses of ' || l.status, count(s.*)::float8, count(*)::float8
    from licences l left join licence_statuses s
      on s.licence_id = l.id and s.status = l.status and s.plan_id = l.plan_id
        and s.expires_on is not distinct from l.expires_on
    group by l.status`
}
