import type { Database } from '@licensing/database/connect'
import { idOf } from '@licensing/database/ids'
import type { Stack } from '@licensing/test-support/stack-shape'
import type { Population } from '../scale/population.ts'

/** Past data of a vendor's licences. Licence number n has activation, payment, session and sale number n. */
export interface History {
  sales: number
  deliveries: number
  /** Time of the last delivery and the last sale, in milliseconds since 1970. */
  lastMs: number
  /** The middle of the period of deliveries and payments. */
  middle: string
}

const numbered = (prefix: string, n: number) => `${prefix}_0${String(n).padStart(25, '0')}`

export const activationId = (n: number) => numbered('act', n)
export const eventId = (n: number) => numbered('evt', n)
export const chargeRef = (n: number) => `ch_bench${n}`
export const legacyKey = (n: number) => `legacy-${n}`

const saleEveryMs = 30_000

/** The id of a checkout session, a payment or a sale event. Ids begin with their time, and lists use that to read fewer rows. */
export function saleId(prefix: 'cs' | 'pay' | 'sale', { sales, lastMs }: History, n: number): string {
  const at = new Date(lastMs - (sales - n) * saleEveryMs)
  return `${idOf(prefix, at, 0n).slice(0, -12)}${String(n).padStart(12, '0')}`
}

const deliveryEveryMs = 250
const deliveryMs = ({ deliveries, lastMs }: History, n: number) => lastMs - (deliveries - n) * deliveryEveryMs

const idStepMs = 2 ** 15
const deliveryPrefix = (step: number) => idOf('dlv', new Date(step * idStepMs), 0n).slice(0, -12)

export function deliveryId(history: History, n: number): string {
  const step = Math.floor(deliveryMs(history, n) / idStepMs)
  return `${deliveryPrefix(step)}${String(n).padStart(12, '0')}`
}

const id = (prefix: string) => `'${prefix}_0' || lpad(n::text, 25, '0')`

/** Inserts an activation for each licence, a legacy key for every hundredth licence, and a year of day counters. */
export async function givenActivations(
  { accountId, appId }: Stack,
  sql: Database,
  { count }: Population,
): Promise<void> {
  await sql`
    update licences set legacy_key = 'legacy-' || n
    from generate_series(100, ${count}::bigint, 100) n where id = 'lic_0' || lpad(n::text, 25, '0')`
  await sql.unsafe(
    `insert into activations (id, account_id, application_id, licence_id, fingerprint, host, product_version)
    select ${id('act')}, $1, $2, ${id('lic')}, 'machine-' || n, 'host-' || n / 10 || '.example.com', '1.0'
    from generate_series(1, ${count}::bigint) n`,
    [accountId, appId],
  )
  await sql`
    insert into application_days (application_id, account_id, day, issued, imported, created, suspended, reactivated,
      revoked, expired, retired, downgraded, active_change, activations_new, activations_freed, activations_seen)
    select ${appId}, ${accountId}, day, 9, 0, 3, 1, 1, 1, 1, 1, 1, 8, 20, 5, 900
    from generate_series((now() at time zone 'UTC')::date - 366, (now() at time zone 'UTC')::date - 1, '1 day') day
    on conflict do nothing`
  for (const table of ['licences', 'activations', 'application_days']) await sql`vacuum analyze ${sql(table)}`
}

/** Inserts a session and a payment for each of the first licences, and a sale in another shop for every tenth. */
export async function givenSales(
  { accountId, appId }: Stack,
  sql: Database,
  { sales, lastMs }: History,
  planId: string,
): Promise<void> {
  const from = `from generate_series(1, ${sales}::bigint) n`
  const at = `to_timestamp((${lastMs}::bigint - (${sales}::bigint - n) * ${saleEveryMs}) / 1000.0)`
  const timed = (prefix: string) =>
    `substr(least_id('${prefix}', ${at}, 0), 1, ${prefix.length + 15}) || lpad(n::text, 12, '0')`
  const of = [accountId, appId, planId]
  await sql.unsafe(
    `insert into checkout_sessions (id, account_id, application_id, plan_id, external_ref, price_id, mode, amount,
      currency, fee_minor, fee_bps, fee_fixed_minor, status, licence_id, merchant, created_at)
    select ${timed('cs')}, $1, $2, $3, 'customer-' || n, 'price_bench', 'payment', 4900, 'usd', 49, 100, 0,
      case when n % 50 = 0 then 'expired' else 'provisioned' end, ${id('lic')}, 'acct_bench', ${at} ${from}`,
    of,
  )
  await sql.unsafe(
    `insert into payments (id, account_id, application_id, source_key, purchase_ref, plan_id, external_ref, amount,
      currency, fee_minor, licence_id, paid_at, merchant, payment_ref, charge_ref, charged_at, charge_state)
    select ${timed('pay')}, $1, $2, 'checkout:' || n, ${timed('cs')}, $3, 'customer-' || n, 4900, 'usd', 49, ${id('lic')},
      ${at}, 'acct_bench', 'pi_bench' || n, 'ch_bench' || n, ${at}, 'known' ${from}`,
    of,
  )
  await sql.unsafe(
    `insert into sale_events (id, account_id, application_id, sale_id, body_hash, external_ref, plan_id, amount,
      currency, occurred_at, status, licence_id)
    select ${timed('sale')}, $1, $2, 'order-' || n, '', 'customer-' || n, $3, 4900, 'usd', ${at},
      case when n % 500 = 0 then 'provision_failed' else 'provisioned' end, ${id('lic')}
    from generate_series(10, ${sales}::bigint, 10) n`,
    of,
  )
  for (const table of ['checkout_sessions', 'payments', 'sale_events'])
    await sql`vacuum analyze ${sql(table)}`
}

/** Inserts past deliveries, ten per licence, a fifth of them failed. Indexes are built after the rows. */
export async function givenDeliveries(
  { accountId, appId }: Stack,
  sql: Database,
  history: History,
  licences: number,
): Promise<void> {
  const { deliveries, lastMs } = history
  const indexes = await sql<{ name: string; definition: string }[]>`
    select indexname as name, indexdef as definition from pg_indexes
    where schemaname = current_schema() and tablename = 'deliveries'
      and indexname not in (select conname from pg_constraint)`
  for (const { name } of indexes) await sql`drop index ${sql(name)}`
  // The endpoints are deleted, so that nothing is sent to them.
  await sql`
    insert into endpoints (id, account_id, application_id, url, encrypted_secret, status, created_at, disabled_at,
      disabled_reason)
    select 'whe_0' || lpad(n::text, 25, '0'), ${accountId}, ${appId}, 'https://hooks.example.com/' || n, ''::bytea,
      'disabled', now() - interval '400 days', now(), 'deleted'
    from generate_series(0, 1) n`
  const firstStep = Math.floor(deliveryMs(history, 1) / idStepMs)
  const steps = Math.floor(lastMs / idStepMs) - firstStep + 1
  const prefixes = Array.from({ length: steps }, (_, step) => deliveryPrefix(firstStep + step))
  await sql.unsafe(
    `insert into deliveries (id, account_id, application_id, endpoint_id, event_id, event_type, recorded_at, sequence,
      created_at, status, attempt_count, last_response_code, scheduled_attempts, licence_id)
    select prefix || lpad(n::text, 12, '0'), $1, $2,
      'whe_0' || lpad((n % 2)::text, 25, '0'), ${id('evt')},
      (array['licence.created', 'licence.suspended', 'licence.revoked', 'licence.expired'])[1 + n % 4],
      at, n, at, case when n % 5 = 0 then 'failed' else 'delivered' end, 1, 200, 1,
      'lic_0' || lpad((1 + n % ${licences})::text, 25, '0')
    from generate_series(1, ${deliveries}::bigint) n
    cross join lateral (select ${lastMs}::bigint - (${deliveries}::bigint - n) * ${deliveryEveryMs} as ms) time
    cross join lateral (select to_timestamp(ms / 1000.0) as at) made
    join unnest($3::text[]) with ordinality p (prefix, place) on place = ms / ${idStepMs} - ${firstStep - 1}`,
    [accountId, appId, prefixes],
  )
  for (const { definition } of indexes) await sql.unsafe(definition)
  await sql`
    insert into delivery_counts (application_id, account_id, step, at, delivered, failed_attempts, latency_counts)
    select ${appId}, ${accountId}, 'day', at, 1000, 20, array_fill(7, array[60])
    from generate_series(date_trunc('day', now(), 'UTC') - interval '366 days',
      date_trunc('day', now(), 'UTC') - interval '1 day', '1 day') at
    on conflict do nothing`
  for (const table of ['deliveries', 'delivery_counts']) await sql`vacuum analyze ${sql(table)}`
}

export const endpointOf = (n: number) => numbered('whe', n % 2)
