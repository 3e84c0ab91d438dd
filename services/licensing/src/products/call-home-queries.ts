import type { Sql } from '@licensing/database/connect'

/** A product that said where it runs, and as which version. */
export interface CallHome {
  activationId: string
  licenceId: string
  applicationId: string
  host: string
  productVersion: string
  /** ISO 8601. */
  seenAt: string
  /** When the token ends that the product gets for this call, ISO 8601; null where it gets none. */
  tokenEndsAt: string | null
}

/**
 * Records calls of many products in one statement. Rows are locked in the order of their keys, table by table, so
 * that two of these never wait for each other. A licence is locked at its first call alone, and left out where
 * another transaction holds it: an archive, which may take a while, delays no calls of other plans.
 *
 * @returns the licences that are still to be marked as seen, and the activations that have been freed
 */
export async function recordCallHomes(
  sql: Sql,
  calls: CallHome[],
): Promise<{ unmarked: Set<string>; gone: Set<string> }> {
  const column = <K extends keyof CallHome>(name: K) => calls.map((call) => call[name])
  const rows = await sql<{ licence_id: string | null; activation_id: string | null }[]>`
    with call as materialized (
      select * from unnest(
        ${column('activationId')}::text[], ${column('licenceId')}::text[], ${column('applicationId')}::text[],
        ${column('host')}::text[], ${column('productVersion')}::text[], ${column('seenAt')}::text[]::timestamptz[],
        ${column('tokenEndsAt')}::text[]::timestamptz[]
      ) with ordinality as call (activation_id, licence_id, application_id, host, product_version, seen_at,
        token_ends_at, place)
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
        max(token_ends_at) over (partition by activation_id) as token_ends_at
      from call order by activation_id, place desc
    ),
    held as materialized (
      select a.id from activations a join latest on latest.activation_id = a.id order by a.id for update of a
    ),
    moved as (
      update activations a
      set host = latest.host, product_version = latest.product_version,
        last_seen_at = greatest(a.last_seen_at, latest.seen_at),
        token_ends_at = greatest(a.token_ends_at, latest.token_ends_at)
      from latest join held on held.id = latest.activation_id where a.id = latest.activation_id
    ),
    active as (
      insert into licence_activity (licence_id, application_id, last_seen_at)
      select licence_id, application_id, max(seen_at) from call group by 1, 2 order by 1
      on conflict (licence_id) do update
      set last_seen_at = greatest(licence_activity.last_seen_at, excluded.last_seen_at)
    ),
    hosts as (
      insert into licence_hosts (application_id, host, licence_id)
      select distinct application_id, host, licence_id from call order by 1, 2, 3
      on conflict do nothing
    ),
    recorded as (
      insert into call_homes (licence_id, host, product_version, seen_at)
      select licence_id, host, product_version, seen_at from call order by place
    )
    (select id as licence_id, null as activation_id from unseen except select id, null from free)
    union all
    (select null, activation_id from latest except select null, id from held)`
  return {
    unmarked: new Set(rows.flatMap((row) => row.licence_id ?? [])),
    gone: new Set(rows.flatMap((row) => row.activation_id ?? [])),
  }
}

/** Marks licences that called home for the first time while others held them. */
export async function markSeen(sql: Sql, licenceIds: string[]): Promise<void> {
  await sql`
    with held as materialized (
      select id from licences where id = any(${licenceIds}::text[]) and not seen order by id for update
    )
    update licences l set seen = true from held where l.id = held.id`
}
