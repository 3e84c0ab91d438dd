import type {
  Activation,
  Counter,
  Delivery,
  Fee,
  HistoryEntry,
  Licence,
  Outcome,
  Payment,
  Provision,
  Refund,
  Sale,
  Session,
  Trial,
} from '../outcome.ts'
import type { StormSql } from './databases.ts'

export function listLicences(sql: StormSql): Promise<Licence[]> {
  return sql<Licence[]>`
    select id, application_id as "appId", plan_id as "planId", status, status_reason as "statusReason",
      external_ref as "externalRef", legacy_key as "legacyKey", idempotency_key as "idempotencyKey",
      max_activations as "maxActivations", max_concurrent as "maxConcurrent",
      (extract(epoch from expires_on) * 1000)::float8 as "expiresOn"
    from licences order by id`
}

export function listHistory(sql: StormSql): Promise<HistoryEntry[]> {
  return sql<HistoryEntry[]>`
    select position, licence_id as "licenceId", (extract(epoch from at) * 1000)::float8 as at, type,
      from_status as "from", to_status as "to", actor, cause
    from licence_history order by position`
}

export function listActivations(sql: StormSql): Promise<Activation[]> {
  return sql<Activation[]>`
    select id, licence_id as "licenceId", fingerprint, held_until is not null as deactivated from activations order by id`
}

export function countLeases(sql: StormSql): Promise<Outcome['leases']> {
  return sql<Outcome['leases']>`
    select licence_id as "licenceId", count(*)::float8 as running
    from leases where ends_at > clock_timestamp() group by licence_id`
}

export function listTrials(sql: StormSql): Promise<Trial[]> {
  return sql<Trial[]>`
    select application_id as "appId", encode(fingerprint_hash, 'hex') as "fingerprintHash", licence_id as "licenceId"
    from trials`
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
      select application_id, issued, imported, suspended, active_change, activations_new - activations_freed
      from application_day_changes
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
    select 'leases of ' || licence_id, leases::float8,
      (select count(*) from leases l where l.licence_id = f.licence_id and counted)::float8
    from floating_licences f
    union all
    select 'activations of ' || licence_id, activations::float8,
      (select count(*) from activations a where a.licence_id = f.licence_id)::float8
    from floating_licences f
    union all
    select 'statuses of ' || l.status, count(s.*)::float8, count(*)::float8
    from licences l left join licence_statuses s
      on s.licence_id = l.id and s.status = l.status and s.plan_id = l.plan_id
        and s.expires_on is not distinct from l.expires_on
    group by l.status`
}

export function listSessions(sql: StormSql): Promise<Session[]> {
  return sql<Session[]>`
    select id, application_id as "appId", plan_id as "planId", external_ref as "externalRef", status,
      licence_id as "licenceId", coalesce(paid_amount, amount) as amount, fee_minor as "feeMinor"
    from checkout_sessions order by id`
}

export function listSales(sql: StormSql): Promise<Sale[]> {
  return sql<Sale[]>`
    select id, application_id as "appId", sale_id as "saleId", status, licence_id as "licenceId"
    from sale_events order by id`
}

export function listPayments(sql: StormSql): Promise<Payment[]> {
  return sql<Payment[]>`
    select id, account_id as "accountId", source_key as "sourceKey", session_id as "sessionId", sale_id as "saleId",
      invoice_ref as "invoiceRef", licence_id as "licenceId", amount, fee_minor as "feeMinor",
      charge_ref as "chargeRef"
    from payments order by id`
}

export function listRefunds(sql: StormSql): Promise<Refund[]> {
  return sql<Refund[]>`
    select id, payment_id as "paymentId", ref, kind as lane, status, amount, processed from refunds order by id`
}

export function listFees(sql: StormSql): Promise<Fee[]> {
  return sql<Fee[]>`
    select id, account_id as "accountId", payment_id as "paymentId", kind, amount_minor as "amountMinor"
    from fee_entries order by id`
}

export function listCaps(sql: StormSql): Promise<Outcome['capMinor']> {
  return sql<Outcome['capMinor']>`
    select account_id as "accountId", cap_minor as "capMinor",
      (select count(*) from cap_periods p where p.account_id = c.account_id)::float8 as reached
    from spend_caps c`
}

export function countBilling(sql: StormSql): Promise<Counter[]> {
  return sql<Counter[]>`
    select 'fees of ' || coalesce(p.account_id, e.account_id) || ' in ' || coalesce(p.period, e.period) as name,
      coalesce(p.spent_minor, 0)::float8 as kept, coalesce(e.sum, 0)::float8 as counted
    from fee_periods p full join (
      select account_id, period, currency, sum(amount_minor) as sum from fee_entries
      group by account_id, period, currency
    ) e using (account_id, period, currency)`
}

export function countUnhandled(sql: StormSql): Promise<{ name: string; count: number }[]> {
  return sql<{ name: string; count: number }[]>`
    select 'processor events not handled' as name, count(*)::float8 as count
    from processor_events where handled_at is null
    union all
    select 'purchases not decided or not sent', count(*)::float8
    from purchases where decide_at is not null or send_at is not null
    union all
    select 'effects that licensing was not sent', count(*)::float8 from purchase_effects where state = 'waiting'
    union all
    select 'refunds of application fees not done', count(*)::float8 from fee_refunds where done_at is null`
}

export function listDeliveries(sql: StormSql): Promise<Delivery[]> {
  return sql<Delivery[]>`
    select id, endpoint_id as "endpointId", event_id as "eventId", status from deliveries order by id`
}

export function listEndpoints(sql: StormSql): Promise<
  {
    id: string
    appId: string
    url: string
    status: string
    disabledReason: string | null
    createdAt: number
  }[]
> {
  return sql`
    select id, application_id as "appId", url, status, disabled_reason as "disabledReason",
      (extract(epoch from created_at) * 1000)::float8 as "createdAt"
    from endpoints order by id`
}

export function countSequences(sql: StormSql): Promise<Counter[]> {
  return sql<Counter[]>`
    select 'sequence of ' || s.account_id as name, last_sequence::float8 as kept,
      (select count(*) from events e where e.account_id = s.account_id)::float8 as counted
    from account_sequences s`
}

export function listCatalogPlans(
  sql: StormSql,
): Promise<{ id: string; appId: string; code: string; name: string; status: string; version: number }[]> {
  return sql`select id, application_id as "appId", code, name, status, version from plans order by id`
}

export function listDefinitions(sql: StormSql): Promise<Outcome['definitions']> {
  return sql<
    Outcome['definitions']
  >`select id, application_id as "appId", key from entitlement_definitions order by id`
}

export function listApiKeys(
  sql: StormSql,
): Promise<{ id: string; accountId: string; name: string; revoked: boolean }[]> {
  return sql`
    select id, account_id as "accountId", name, revoked_at is not null as revoked from api_keys order by id`
}

export async function countOutbox(sql: StormSql, service: string): Promise<{ name: string; count: number }> {
  const [row] = await sql<{ count: number }[]>`select count(*)::float8 as count from outbox`
  return { name: `outbox of ${service}`, count: row!.count }
}

export async function countDeadLetters(
  sql: StormSql,
  service: string,
): Promise<{ name: string; count: number }> {
  const [row] = await sql<{ count: number }[]>`select count(*)::float8 as count from dead_letters`
  return { name: `dead letters of ${service}`, count: row!.count }
}

export function listPositions(
  sql: StormSql,
  source: string,
): Promise<{ partition: number; number: number }[]> {
  return sql`select partition, number from consumer_positions where source = ${source}`
}

/** The latest number of each partition of a service's event log. */
export async function listNumbers(sql: StormSql): Promise<number[]> {
  const [row] = await sql<{ numbers: string[] }[]>`select numbers::text[] as numbers from event_log_state`
  return row!.numbers.map(Number)
}
