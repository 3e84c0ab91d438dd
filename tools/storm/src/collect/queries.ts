import postgres from 'postgres'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DATABASE_SERVICES, type DatabaseService } from '@licensing/local-servers/services'
import { consumersOf, sources } from '@licensing/proto/event-streams'
import type { Outcome } from '../outcome.ts'

/** The statements for each list of the outcome, by the service that owns the tables. Columns get names in camel case. */
const statements = {
  licences: {
    licensing: `
      select id, application_id as app_id, plan_id, status, external_ref, legacy_key, idempotency_key, max_activations,
        max_concurrent, (extract(epoch from expires_on) * 1000)::float8 as expires_on
      from licences order by id`,
  },
  history: {
    licensing: `
      select position, licence_id, (extract(epoch from at) * 1000)::float8 as at, type, from_status as "from",
        to_status as "to", actor, cause
      from licence_history order by position`,
  },
  activations: {
    licensing: `
      select id, licence_id, fingerprint, held_until is not null as deactivated from activations order by id`,
  },
  leases: {
    licensing: `
      select licence_id, count(*)::float8 as running from leases where ends_at > clock_timestamp() group by licence_id`,
  },
  trials: {
    licensing: `
      select application_id as app_id, encode(fingerprint_hash, 'hex') as fingerprint_hash, licence_id from trials`,
  },
  provisions: { licensing: 'select application_id as app_id, payment_ref, licence_id from provisions' },
  revocations: { licensing: 'select application_id as app_id, version, licence_id from revocations' },
  planCopies: { licensing: 'select id, status, version from plans' },
  catalogPlans: { catalog: 'select id, status, version from plans' },
  definitions: {
    catalog: 'select id, application_id as app_id, key from entitlement_definitions order by id',
  },
  apiKeys: {
    catalog: `
      select id, account_id, name, revoked_at is not null as revoked, null as accepted from api_keys order by id`,
  },
  auditLog: {
    catalog: `
      select operation, resource_id, application_id as app_id, changes::jsonb as changes from audit_log order by id`,
  },
  sessions: {
    billing: `
      select id, application_id as app_id, external_ref, status, licence_id, coalesce(paid_amount, amount) as amount
      from checkout_sessions order by id`,
  },
  sales: {
    billing: 'select id, application_id as app_id, sale_id, status, licence_id from sale_events order by id',
  },
  saleFacts: {
    billing: `
      select application_id as app_id, sale_id, kind, fact_id as id, (extract(epoch from occurred_at) * 1000)::float8 as at,
        amount, renewal_id
      from sale_facts order by position`,
  },
  payments: {
    billing: `
      select id, source_key, case when sale_id is null then purchase_ref end as session_id, sale_id, invoice_ref, licence_id, amount, fee_minor, charge_ref
      from payments order by id`,
  },
  refunds: {
    billing: 'select id, payment_id, ref, kind as lane, amount, processed from refunds order by id',
  },
  fees: { billing: 'select id, payment_id, kind, amount_minor from fee_entries order by id' },
  capMinor: {
    billing: `
      select account_id, cap_minor,
        (select count(*) from cap_periods p where p.account_id = c.account_id)::float8 as reached
      from spend_caps c`,
  },
  deliveries: { notifier: 'select id, endpoint_id, event_id, status from deliveries order by id' },
  endpoints: {
    notifier: `
      select id, application_id as app_id, url, status, disabled_reason, description, url like '%/dead/%' as dead
      from endpoints order by id`,
  },
  counters: {
    licensing: `
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
      select 'licences ' || type || ' by the days', coalesce(sum(number), 0)::float8,
        (select count(*) from licence_history h where h.type = by_day.type)::float8
      from (
        select 'issued' as type, issued as number from day union all select 'imported', imported from day
        union all select 'suspended', suspended from day
      ) by_day group by type
      union all
      select 'active licences of ' || p.id,
        coalesce((select sum(active) from plan_counts c where c.plan_id = p.id), 0)::float8,
        (select count(*) from licences l where l.plan_id = p.id and l.status = 'active')::float8
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
      group by l.status`,
    billing: `
      select 'fees of ' || account_id || ' in ' || period as name, coalesce(p.spent_minor, 0)::float8 as kept,
        coalesce(e.sum, 0)::float8 as counted
      from fee_periods p full join (
        select account_id, period, currency, sum(amount_minor) as sum from fee_entries
        group by account_id, period, currency
      ) e using (account_id, period, currency)
      union all
      select 'payments, less refunds, by the days of ' || account_id, sum(money)::float8, coalesce((
        select sum(amount) from payments p where p.account_id = day.account_id
      ), 0)::float8 - coalesce((
        select sum(amount) from refunds r
        where r.account_id = day.account_id and (kind = 'chargeback' or status = 'succeeded')
      ), 0)::float8
      from (
        select account_id, gross_minor - refunded_minor as money from payment_days
        union all
        select account_id, gross_minor - refunded_minor from payment_day_changes
      ) day
      group by account_id`,
    notifier: `
      select 'sequence of ' || s.account_id as name, last_sequence::float8 as kept,
        (select count(*) from events e where e.account_id = s.account_id)::float8 as counted
      from account_sequences s`,
  },
  leftovers: {
    catalog: `
      select 'outbox of catalog' as name, count(*)::float8 as count from outbox
      union all
      select 'dead letters of catalog', count(*)::float8 from dead_letters`,
    licensing: `
      select 'outbox of licensing' as name, count(*)::float8 as count from outbox
      union all
      select 'dead letters of licensing', count(*)::float8 from dead_letters`,
    billing: `
      select 'outbox of billing' as name, count(*)::float8 as count from outbox
      union all
      select 'processor events not handled', count(*)::float8 from processor_events where handled_at is null
      union all
      select 'purchases not decided or not sent', count(*)::float8 from purchases
      where decide_at is not null or send_at is not null
      union all
      select 'effects that licensing was not sent', count(*)::float8 from purchase_effects where state = 'waiting'
      union all
      select 'refunds of application fees not done', count(*)::float8 from fee_refunds where done_at is null`,
    notifier: `
      select 'dead letters of the notifier' as name, count(*)::float8 as count from dead_letters
      union all
      select 'outbox of the notifier', count(*)::float8 from outbox
      union all
      select 'deliveries pending', count(*)::float8 from deliveries d where status = 'pending' and exists (
        select from endpoints e where e.id = d.endpoint_id and e.url not like '%/dead/%'
      )`,
  },
} satisfies Partial<Record<keyof Outcome, Partial<Record<DatabaseService, string>>>>

type Listed = keyof typeof statements

/** Direct connections without a proxy, one for each service. */
export class Databases implements AsyncDisposable {
  readonly #of: Record<DatabaseService, postgres.Sql<{ bigint: number }>>

  constructor(urls: Record<DatabaseService, string>) {
    const connect = (service: DatabaseService) =>
      postgres(urls[service], {
        max: 1,
        onnotice: () => undefined,
        transform: { column: { from: postgres.toCamel } },
        types: { bigint: { to: 20, from: [20, 1700], parse: Number, serialize: String } },
      })
    const entries = DATABASE_SERVICES.map((service) => [service, connect(service)] as const)
    this.#of = Object.fromEntries(entries) as Record<DatabaseService, ReturnType<typeof connect>>
  }

  async list<Name extends Listed>(name: Name): Promise<Outcome[Name]> {
    const texts = Object.entries(statements[name]) as [DatabaseService, string][]
    const rows = await Promise.all(texts.map(([service, text]) => this.#of[service].unsafe(text)))
    return rows.flat() as unknown as Outcome[Name]
  }

  /** All lists that are in the databases. */
  async lists(): Promise<Pick<Outcome, Listed>> {
    const names = Object.keys(statements) as Listed[]
    const read = await Promise.all(names.map(async (name) => [name, await this.list(name)] as const))
    return { ...(Object.fromEntries(read) as Pick<Outcome, Listed>), leftovers: await this.leftovers() }
  }

  /** Work that is pending, with the number of events that each consumer has not read. Deliveries to a dead endpoint do not count. */
  async leftovers(): Promise<Outcome['leftovers']> {
    const lags: Outcome['leftovers'] = []
    for (const source of sources) {
      const [log] = await this.#of[source]<{ numbers: string[] }[]>`
        select numbers::text[] as numbers from event_log_state`
      for (const consumer of consumersOf[source]) {
        const positions = await this.#of[consumer]<{ partition: number; number: number }[]>`
          select partition, number from consumer_positions where source = ${source}`
        for (const { partition, number } of positions) {
          const count = Number(log!.numbers[partition]) - number
          lags.push({ name: `events of ${source} ${partition} that ${consumer} has not read`, count })
        }
      }
    }
    return [...(await this.list('leftovers')), ...lags]
  }

  /** Writes each table of each service into the folder as a JSON file, to find the cause of a violation. */
  async dump(folder: string): Promise<void> {
    for (const [service, sql] of Object.entries(this.#of)) {
      const tables = await sql<{ name: string }[]>`
        select relname as name from pg_class
        where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition`
      for (const { name } of tables) {
        const rows = await sql<{ row: unknown }[]>`
          select to_jsonb(of_table) as row from ${sql(name)} of_table limit ${maxRows}`
        const lines = rows.map(({ row }) => JSON.stringify(row)).join('\n')
        await writeFile(join(folder, `${service}.${name}.jsonl`), lines)
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(Object.values(this.#of).map((sql) => sql.end({ timeout: 5 })))
  }
}

const maxRows = 50_000
