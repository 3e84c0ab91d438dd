import type { Sql } from '@licensing/database/connect'
import type { LicenceStatus } from '@licensing/proto/closed-sets'
import { freedEntry } from './activation-queries.ts'
import type { ProductLicence } from './activation-queries.ts'

/** The leases of a floating licence, read under its lock. */
export interface CountedLeases {
  /** The number of counted leases: leases that have not ended, or that are being extended. */
  counted: number
  /** The requested activations whose lease is counted. */
  holders: Set<string>
}

const maxAtOnce = 1_000

/** Counts the leases of a licence that have not ended. Each lease that has ended is visited once. */
export async function countLeases(
  sql: Sql,
  licenceId: string,
  activationIds: string[],
): Promise<CountedLeases> {
  for (;;) {
    const [row] = await sql<{ ended: number; counted: number; holders: string[] }[]>`
      with ended as (
        update leases set counted = false where ctid = any(array(
          select ctid from leases
          where licence_id = ${licenceId} and counted and ends_at <= (select clock_timestamp())
          order by ends_at limit ${maxAtOnce} for update skip locked
        ))
        returning activation_id
      ),
      uncounted as (
        update floating_licences set leases = leases - (select count(*) from ended)
        where licence_id = ${licenceId} and exists (select from ended)
      )
      select (select count(*)::int from ended) as ended, f.leases - (select count(*)::int from ended) as counted,
        array(
          select activation_id from leases where activation_id = any(${activationIds}::text[]) and counted
          except select activation_id from ended
        ) as holders
      from floating_licences f where f.licence_id = ${licenceId}`
    const { ended, counted, holders } = row!
    if (ended < maxAtOnce) return { counted, holders: new Set(holders) }
  }
}

export interface GivenLease {
  activationId: string
  /** Whether the activation's lease is not counted yet. */
  isNew: boolean
  /** The end of the file that the activation gets for a machine without a network. */
  offlineUntil: Date | null
}

/**
 * Writes new and extended leases under the licence's lock. They last for the licence's minutes, or until the end of a
 * file.
 *
 * @returns the ends by activation
 */
export async function writeLeases(
  sql: Sql,
  licence: ProductLicence,
  leases: GivenLease[],
): Promise<Map<string, Date>> {
  const added = leases.filter(({ isNew }) => isNew).length
  const rows = await sql<{ activation_id: string; ends_at: Date }[]>`
    with counted as (
      update floating_licences set leases = leases + ${added} where licence_id = ${licence.id} and ${added > 0}
    )
    insert into leases (activation_id, licence_id, ends_at, offline_until, counted)
    select activation_id, ${licence.id},
      coalesce(offline_until, clock_timestamp() + make_interval(mins => ${licence.lease_minutes})), offline_until, true
    from (
      select activation_id, max(offline_until) as offline_until
      from unnest(
        ${leases.map(({ activationId }) => activationId)}::text[],
        ${leases.map(({ offlineUntil }) => offlineUntil?.toISOString() ?? null)}::text[]::timestamptz[]
      ) as given (activation_id, offline_until)
      group by activation_id
    ) given
    on conflict (activation_id) do update set
      ends_at = greatest(excluded.ends_at, leases.offline_until,
        case when leases.counted and excluded.offline_until is not null then leases.ends_at end),
      offline_until = greatest(leases.offline_until, excluded.offline_until),
      counted = true
    returning activation_id, ends_at`
  return new Map(rows.map((row) => [row.activation_id, row.ends_at]))
}

/** The activations in this list that still exist. */
export async function findExisting(sql: Sql, activationIds: string[]): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    select id from activations where id = any(${activationIds}::text[])`
  return new Set(rows.map(({ id }) => id))
}

/** Ends an activation's lease, under the licence's lock. It stays until the end of an offline file. */
export async function endLease(sql: Sql, licenceId: string, activationId: string): Promise<void> {
  await sql`
    with ended as (
      update leases l
      set ends_at = greatest(clock.now, l.offline_until), counted = coalesce(l.offline_until > clock.now, false)
      from (select clock_timestamp() as now) clock
      where l.activation_id = ${activationId} and l.counted and l.ends_at > clock.now
      returning l.counted
    )
    update floating_licences set leases = leases - 1
    where licence_id = ${licenceId} and exists (select from ended where not counted)`
}

const idleSince = (sql: Sql) => sql`now() - interval '30 days'`

/** Licences that have activations without a lease for 30 days. */
export async function findIdleLicences(sql: Sql, limit: number): Promise<string[]> {
  const rows = await sql<{ licence_id: string }[]>`
    (select licence_id from leases where ends_at < ${idleSince(sql)} order by ends_at limit ${limit})
    union
    (select licence_id from floating_licences where floating_since < ${idleSince(sql)} limit ${limit})`
  return rows.map((row) => row.licence_id)
}

/**
 * Removes activations of a licence that have had no lease for 30 days, with entries in the history. If another transaction
 * has locked the licence, it removes none.
 *
 * @returns how many, at most `limit`
 */
export async function removeIdleActivations(sql: Sql, licenceId: string, limit: number): Promise<number> {
  const [licence] = await sql<{ status: LicenceStatus }[]>`
    select status from licences where id = ${licenceId} for update skip locked`
  if (!licence) return 0
  // If an activation never had a lease, the time when the licence became floating counts as the end of its lease.
  await sql`
    with former as (
      update floating_licences set floating_since = null
      where licence_id = ${licenceId} and floating_since < ${idleSince(sql)}
      returning ${idleSince(sql)} - interval '1 second' as since
    )
    insert into leases (activation_id, licence_id, ends_at, counted)
    select a.id, a.licence_id, former.since, false from former join activations a on a.licence_id = ${licenceId}
    on conflict do nothing`
  const { count } = await sql`
    with idle as materialized (
      select a.id from activations a
      where a.id = any(array(
        select activation_id from leases where licence_id = ${licenceId} and ends_at < ${idleSince(sql)} limit ${limit}
      ))
      order by a.id for update skip locked
    ),
    removed as (
      delete from activations where id = any(array(select id from idle)) returning id
    ),
    ended as (
      delete from leases where activation_id = any(array(select id from removed)) returning counted
    ),
    uncounted as (
      update floating_licences
      set activations = activations - (select count(*) from removed),
        leases = leases - (select count(*) from ended where counted)
      where licence_id = ${licenceId}
    )
    insert into licence_history (licence_id, at, type, from_status, to_status, actor, cause)
    select ${licenceId}, clock_timestamp(), ${freedEntry}, ${licence.status}, ${licence.status}, 'sweep', id
    from removed order by id`
  return count
}
