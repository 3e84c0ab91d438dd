import type { Sql } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'
import { quotaValue } from '@licensing/quotas/quota-queries'

/** This many of a licence's latest calls are kept: its detail shows all of them (docs/guides/licences.md, "Find and change a licence"). */
export const latestCalls = 50

/** A call of a product that reports its host and version. */
export interface CallHome {
  activationId: string
  licenceId: string
  applicationId: string
  host: string
  productVersion: string
  seenAt: Date
  /** The end of the token that the product gets with this call; null if it gets none. */
  tokenEndsAt: Date | null
  /** If set, the call extends the activation's lease to this many minutes from now, if it has not ended. */
  leaseMinutes: number | null
}

const callColumns = {
  activation_id: 'text',
  licence_id: 'text',
  application_id: 'text',
  host: 'text',
  product_version: 'text',
  seen_at: 'timestamptz',
  token_ends_at: 'timestamptz',
  lease_minutes: 'int',
} as const

const callRow = (call: CallHome): Record<keyof typeof callColumns, unknown> => ({
  activation_id: call.activationId,
  licence_id: call.licenceId,
  application_id: call.applicationId,
  host: call.host,
  product_version: call.productVersion,
  seen_at: call.seenAt,
  token_ends_at: call.tokenEndsAt,
  lease_minutes: call.leaseMinutes,
})

/**
 * Records calls of many products in one statement. It locks rows table by table and in the order of their keys, so that
 * two such statements cannot deadlock. A licence is locked only at its first call, and skipped if another transaction holds
 * its lock: a long archive does not delay calls of other plans.
 *
 * A call replaces the call of the same licence that is `latestCalls` older.
 *
 * The token of a call that extends a lease ends with the lease at the latest, and does not exist if the lease has ended.
 * The comment on `leases` in the migration says why an extension needs no lock of the licence.
 *
 * @returns the licences that still have to be marked as seen, the activations that do not exist any more, the ends of the
 * extended leases by activation, and the licences with a host that is new or was not seen for a day
 */
export async function recordCallHomes(
  sql: Sql,
  calls: CallHome[],
): Promise<{
  unmarked: Set<string>
  gone: Set<string>
  leases: Map<string, Date>
  withNewHosts: string[]
}> {
  const rows = await sql<{ what: string; id: string; ends_at: Date | null }[]>`
    with call as materialized (
      select * from ${rowsOf(sql, callColumns, calls.map(callRow))} call
    ),
    unseen as materialized (
      select l.id from licences l where l.id in (select licence_id from call) and not l.seen
    ),
    free as materialized (
      select l.id from licences l where l.id in (select id from unseen) order by l.id for update skip locked
    ),
    marked as (
      update licences l set seen = true from free where l.id = free.id
    ),
    latest as materialized (
      select distinct on (activation_id) activation_id, host, product_version, seen_at,
        max(token_ends_at) filter (where lease_minutes is null) over own as token_ends_at,
        max(token_ends_at) filter (where lease_minutes is not null) over own as leased_token_ends_at,
        max(lease_minutes) over own as lease_minutes
      from call window own as (partition by activation_id) order by activation_id, ordinality desc
    ),
    held as materialized (
      select a.id, a.application_id, a.account_id, a.offline_until, a.last_seen_at from activations a
      join latest on latest.activation_id = a.id
      where a.held_until is null order by a.id for update of a
    ),
    -- The array is complete before the first lease is locked: this statement waits for no activation while it holds a lease.
    running as materialized (
      select activation_id from leases
      where activation_id = any(array(
          select id from held join latest on latest.activation_id = id where lease_minutes is not null
        )) and counted and ends_at > clock_timestamp()
      for update skip locked
    ),
    extended as (
      update leases l
      set ends_at = greatest(clock_timestamp() + make_interval(mins => latest.lease_minutes), held.offline_until)
      from latest join running using (activation_id) join held on held.id = latest.activation_id
      where l.activation_id = latest.activation_id
      returning l.activation_id, l.ends_at
    ),
    moved as (
      update activations a
      set host = latest.host, product_version = latest.product_version,
        last_seen_at = greatest(a.last_seen_at, latest.seen_at),
        token_ends_at = greatest(a.token_ends_at, latest.token_ends_at,
          case when extended.ends_at is not null then least(latest.leased_token_ends_at, extended.ends_at) end)
      from latest join held on held.id = latest.activation_id left join extended using (activation_id)
      where a.id = latest.activation_id
    ),
    -- Each activation is counted once on each day.
    noted as (
      insert into application_day_changes (application_id, account_id, day, activations_seen)
      select application_id, account_id, (seen_at at time zone 'UTC')::date, count(*)
      from latest join held on held.id = latest.activation_id
      where (seen_at at time zone 'UTC')::date > (last_seen_at at time zone 'UTC')::date group by 1, 2, 3
    ),
    active as (
      insert into licence_activity (licence_id, application_id, last_seen_at, calls)
      select licence_id, application_id, max(seen_at), count(*) from call group by 1, 2 order by 1
      on conflict (licence_id) do update
      set last_seen_at = greatest(licence_activity.last_seen_at, excluded.last_seen_at),
        calls = licence_activity.calls + excluded.calls
      returning licence_id, calls
    ),
    numbered as (
      select licence_id, host, product_version, seen_at, active.calls - back as number
      from active join (
        select *, row_number() over (partition by licence_id order by ordinality desc) - 1 as back from call
      ) latest using (licence_id)
      where back < ${latestCalls}
    ),
    recorded as (
      insert into call_homes (licence_id, slot, number, host, product_version, seen_at)
      select licence_id, number % ${latestCalls}, number, host, product_version, seen_at from numbered order by 1, 2
      on conflict (licence_id, slot) do update
      set number = excluded.number, host = excluded.host, product_version = excluded.product_version,
        seen_at = excluded.seen_at
    ),
    host as materialized (
      select application_id, host, licence_id, max(seen_at) as seen_at from call group by 1, 2, 3
    ),
    new_hosts as (
      insert into licence_hosts (application_id, host, licence_id, last_seen_at)
      select application_id, host, licence_id, seen_at from host order by 1, 2, 3
      on conflict do nothing
      returning licence_id
    ),
    stale as materialized (
      select h.application_id, h.host, h.licence_id, host.seen_at
      from host join licence_hosts h using (application_id, host, licence_id)
      where h.last_seen_at is null or h.last_seen_at < host.seen_at - interval '1 day'
      for update of h skip locked
    ),
    seen_again as (
      update licence_hosts h set last_seen_at = stale.seen_at
      from stale
      where (h.application_id, h.host, h.licence_id) = (stale.application_id, stale.host, stale.licence_id)
      returning h.licence_id
    )
    select 'unmarked' as what, id, null::timestamptz as ends_at
    from (select id from unseen except select id from free) still
    union all
    select 'gone', id, null from (select activation_id as id from latest except select id from held) freed
    union all
    select 'lease', activation_id, ends_at from extended
    union all
    select 'new host', licence_id, null from (select licence_id from new_hosts union select licence_id from seen_again) seen`
  const idsOf = (what: string) => rows.flatMap((row) => (row.what === what ? [row.id] : []))
  return {
    unmarked: new Set(idsOf('unmarked')),
    gone: new Set(idsOf('gone')),
    leases: new Map(rows.flatMap((row) => (row.what === 'lease' ? [[row.id, row.ends_at!]] : []))),
    withNewHosts: idsOf('new host'),
  }
}

/**
 * Deletes the hosts that were seen longest ago, if a licence has more than the account's quota allows. Hosts that the
 * licence is restricted to stay.
 */
export async function deleteOldHosts(sql: Sql, licenceIds: string[]): Promise<void> {
  await sql`
    delete from licence_hosts where ctid = any(array(
      select old.ctid
      from licences l cross join lateral (
        select h.ctid from licence_hosts h
        where h.licence_id = l.id and h.last_seen_at is not null and h.host <> all(l.domains)
        order by h.last_seen_at desc offset ${quotaValue(sql, { column: 'l.account_id' }, 'hosts')} limit 1000
        for update skip locked
      ) old
      where l.id = any(${licenceIds}::text[])
    ))`
}

/** Marks licences as seen that were locked at their first call. */
export async function markSeen(sql: Sql, licenceIds: string[]): Promise<void> {
  await sql`
    with held as materialized (
      select id from licences where id = any(${licenceIds}::text[]) and not seen order by id for update
    )
    update licences l set seen = true from held where l.id = held.id`
}
