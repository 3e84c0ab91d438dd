import type { Sql } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'
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
  /** The end of a file that its machine got with an earlier activation. */
  keptUntil?: Date | null | undefined
}

/**
 * Writes new and extended leases under the locks of the licence and the activations. They last for the licence's minutes, or
 * until the end of a file.
 *
 * @returns the ends by activation
 */
export async function writeLeases(
  sql: Sql,
  licence: ProductLicence,
  leases: GivenLease[],
): Promise<Map<string, Date>> {
  const added = leases.filter(({ isNew }) => isNew).length
  const columns = { activation_id: 'text', offline_until: 'timestamptz', kept_until: 'timestamptz' } as const
  const given = leases.map(({ activationId: activation_id, offlineUntil, keptUntil }) => {
    return { activation_id, offline_until: offlineUntil, kept_until: keptUntil }
  })
  const rows = await sql<{ activation_id: string; ends_at: Date }[]>`
    with counted as (
      update floating_licences set leases = leases + ${added} where licence_id = ${licence.id} and ${added > 0}
    )
    insert into leases (activation_id, licence_id, ends_at, counted)
    select given.activation_id, ${licence.id},
      greatest(
        coalesce(given.offline_until, clock_timestamp() + make_interval(mins => ${licence.lease_minutes})),
        given.kept_until, a.offline_until,
        -- A file does not shorten the lease of an earlier token.
        case when lease.counted and given.offline_until is not null then lease.ends_at end
      ), true
    from (
      select activation_id, max(offline_until) as offline_until, max(kept_until) as kept_until
      from ${rowsOf(sql, columns, given)} given group by activation_id
    ) given
      left join activations a on a.id = given.activation_id
      left join leases lease on lease.activation_id = given.activation_id
    on conflict (activation_id) do update set ends_at = excluded.ends_at, counted = true
    returning activation_id, ends_at`
  return new Map(rows.map((row) => [row.activation_id, row.ends_at]))
}

/** The activations in this list that still exist. Locks them, so that they get no other token meanwhile. */
export async function lockExisting(sql: Sql, activationIds: string[]): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    select id from activations where id = any(${activationIds}::text[]) and held_until is null
    order by id for update`
  return new Set(rows.map(({ id }) => id))
}

/**
 * Ends an activation's lease, under the locks of the licence and the activation. It stays until the end of a file, and until
 * the end of its last token if `keepsToken`.
 */
export async function endLease(
  sql: Sql,
  licenceId: string,
  activationId: string,
  keepsToken: boolean,
): Promise<void> {
  await sql`
    with ended as (
      update leases l
      set ends_at = greatest(clock.now, kept.until), counted = coalesce(kept.until > clock.now, false)
      from (select clock_timestamp() as now) clock, (
        select lease.activation_id,
          greatest(a.offline_until, case when ${keepsToken} then least(a.token_ends_at, lease.ends_at) end) as until
        from leases lease join activations a on a.id = lease.activation_id
      ) kept
      where l.activation_id = ${activationId} and kept.activation_id = ${activationId}
        and l.counted and l.ends_at > clock.now
      returning l.counted
    )
    update floating_licences set leases = leases - 1
    where licence_id = ${licenceId} and exists (select from ended where not counted)`
}
