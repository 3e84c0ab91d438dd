import type { Sql, Statement } from '@licensing/database/connect'
import type { HistoryType, LicenceStatus } from '@licensing/proto/closed-sets'
import { rowsFor } from '@licensing/database/page'
import type { PageRequest } from '@licensing/database/page'
import { inOrderOf } from '@licensing/database/row-queries'
import { quotaValue } from '@licensing/quotas/quota-queries'
import { inScope } from '../lifecycle/licence-queries.ts'
import type { LicenceScope } from '../lifecycle/licence-queries.ts'
import { currentOverrides } from '../overrides/override-queries.ts'
import type { CurrentOverride } from '../overrides/override.ts'

export const freedEntry: HistoryType = 'activation_freed'

/** The actor in the history if a product frees an activation. */
export const byProduct = 'product'

/** The columns that decide whether a product may run, and that its token contains. */
export interface ProductLicence {
  id: string
  account_id: string
  application_id: string
  plan_id: string
  snapshot_id: string
  status: LicenceStatus
  domains: string[]
  max_activations: number | null
  max_seats: number | null
  max_concurrent: number | null
  /** Set if and only if `max_concurrent` is. */
  lease_minutes: number | null
  expires_on: Date | null
  updates_until: Date | null
  /** The overrides that have not ended. */
  overrides: CurrentOverride[]
}

export interface ActivatedLicence extends ProductLicence {
  activation_id: string
  /** Whether the activation holds a lease that has not ended. */
  has_lease: boolean
}

const productColumns = (sql: Sql) => sql`
  l.id, l.account_id, l.application_id, l.plan_id, l.snapshot_id, l.status, l.domains, l.max_activations,
  l.max_seats, l.max_concurrent, l.lease_minutes, l.expires_on, l.updates_until, ${currentOverrides(sql)} as overrides`

type Read<Row extends ProductLicence> = Omit<Row, 'overrides'> & { overrides: string[] }

function parsed<Row extends ProductLicence>(row: Read<Row>) {
  return { ...row, overrides: row.overrides.map((json) => JSON.parse(json) as CurrentOverride) }
}

export interface Machine {
  licenceKey: string
  fingerprint: string
}

export interface LicenceOfMachine extends ProductLicence {
  /** The activation of the fingerprint. */
  activation_id: string | null
}

/** The licences of these keys, in the order of the request. */
export async function findLicencesOfKeys(
  sql: Sql,
  machines: Machine[],
): Promise<(LicenceOfMachine | undefined)[]> {
  const rows = await sql<(Read<LicenceOfMachine> & { place: number })[]>`
    select machine.place::int, a.id as activation_id, ${productColumns(sql)}
    from unnest(
      ${machines.map(({ licenceKey }) => licenceKey)}::text[], ${machines.map(({ fingerprint }) => fingerprint)}::text[]
    ) with ordinality as machine (key, fingerprint, place)
    join licences l on l.key = machine.key
    left join activations a on a.licence_id = l.id and a.fingerprint = machine.fingerprint`
  return inOrderOf(machines, rows).map((row) => row && parsed<LicenceOfMachine>(row))
}

/** Locks a licence. A second statement, sent with the first, sees everything committed while that one waited for the lock. */
async function lock(sql: Sql, which: Statement): Promise<ProductLicence | undefined> {
  const [, [row]] = await Promise.all([
    sql`select from licences l where ${which} for update`,
    sql<Read<ProductLicence>[]>`select ${productColumns(sql)} from licences l where ${which}`,
  ])
  return row && parsed<ProductLicence>(row)
}

/** Locks the licence of a key, so that its activations are made one after the other. */
export const lockLicenceOfKey = (sql: Sql, key: string) => lock(sql, sql`l.key = ${key}`)

export const lockLicenceOfId = (sql: Sql, licenceId: string) => lock(sql, sql`l.id = ${licenceId}`)

/** The activations, in the order of the request. */
export async function findActivations(
  sql: Sql,
  activationIds: string[],
): Promise<(ActivatedLicence | undefined)[]> {
  const rows = await sql<Read<ActivatedLicence>[]>`
    select a.id as activation_id, ${productColumns(sql)},
      coalesce(lease.counted and lease.ends_at > clock_timestamp(), false) as has_lease
    from activations a join licences l on l.id = a.licence_id
      left join leases lease on lease.activation_id = a.id and l.max_concurrent is not null
    where a.id = any(${activationIds}::text[])`
  const found = new Map(rows.map((row) => [row.activation_id, row]))
  return activationIds.map((id) => {
    const row = found.get(id)
    return row && parsed<ActivatedLicence>(row)
  })
}

/** The places of a licence, read under its lock. */
export interface Places {
  /** How many activations it has. */
  taken: number
  /** Places still occupied by activations that products freed, because their last token has not ended. */
  occupied: number
  /** When the first of these places is free. */
  occupiedUntil: Date | null
  quota: number
  /** Activation ids by fingerprint, of the requested fingerprints. */
  known: Map<string, string>
  /** The end of the last token, of the requested fingerprints that still occupy a place. */
  occupiedUntilOf: Map<string, Date>
}

/** If a licence has no limit, places that products freed do not count. */
export async function findPlaces(
  sql: Sql,
  licence: Pick<ProductLicence, 'id' | 'account_id' | 'max_activations'>,
  fingerprints: string[],
): Promise<Places> {
  const counts = licence.max_activations !== null
  const [row] = await sql<
    {
      taken: number
      occupied: number
      occupied_until: Date | null
      quota: bigint
      known: Record<string, string>
      occupied_until_of: Record<string, string>
    }[]
  >`
    with occupied as materialized (
      select fingerprint, token_ends_at from freed_places
      where licence_id = ${licence.id} and takes_place and token_ends_at > now() and ${counts}
    ),
    asked as (select fingerprint from unnest(${fingerprints}::text[]) as fingerprint)
    select coalesce(
        (select activations from floating_licences where licence_id = ${licence.id}),
        (select count(*)::int from activations where licence_id = ${licence.id})
      ) as taken,
      (select count(*)::int from occupied) as occupied, (select min(token_ends_at) from occupied) as occupied_until,
      ${quotaValue(sql, licence.account_id, 'activations')} as quota,
      (
        select coalesce(json_object_agg(fingerprint, id), '{}') from activations
        where licence_id = ${licence.id} and fingerprint in (select fingerprint from asked)
      ) as known,
      (
        select coalesce(json_object_agg(fingerprint, ends_at), '{}')
        from (
          select fingerprint, max(token_ends_at) as ends_at from occupied
          where fingerprint in (select fingerprint from asked) group by fingerprint
        ) own
      ) as occupied_until_of`
  const { taken, occupied, occupied_until: occupiedUntil, quota, known, occupied_until_of: untilOf } = row!
  return {
    taken,
    occupied,
    occupiedUntil,
    quota: Number(quota),
    known: new Map(Object.entries(known)),
    occupiedUntilOf: new Map(
      Object.entries(untilOf).map(([fingerprint, end]) => [fingerprint, new Date(end)]),
    ),
  }
}

export interface NewActivation {
  id: string
  fingerprint: string
  host: string
  productVersion: string
  /** If the fingerprint still occupies a freed place until this time, the new activation uses that place. */
  occupiedUntil: Date | null
  /** The end of its first token. */
  tokenEndsAt: Date
}

export async function insertActivations(
  sql: Sql,
  licence: ProductLicence,
  activations: NewActivation[],
): Promise<void> {
  const returning = activations.filter(({ occupiedUntil }) => occupiedUntil !== null)
  if (returning.length > 0) {
    await sql`
      delete from freed_places
      where licence_id = ${licence.id} and takes_place
        and fingerprint = any(${returning.map(({ fingerprint }) => fingerprint)}::text[])`
  }
  await sql`
    with counted as (
      update floating_licences set activations = activations + ${activations.length} where licence_id = ${licence.id}
    )
    insert into activations (id, account_id, application_id, licence_id, fingerprint, host, product_version,
      token_ends_at)
    select id, ${licence.account_id}, ${licence.application_id}, ${licence.id}, fingerprint, host, product_version,
      greatest(token_ends_at, occupied_until)
    from unnest(
      ${activations.map((activation) => activation.id)}::text[],
      ${activations.map((activation) => activation.fingerprint)}::text[],
      ${activations.map((activation) => activation.host)}::text[],
      ${activations.map((activation) => activation.productVersion)}::text[],
      ${activations.map((activation) => activation.tokenEndsAt.toISOString())}::text[]::timestamptz[],
      ${activations.map((activation) => activation.occupiedUntil?.toISOString() ?? null)}::text[]::timestamptz[]
    ) as activation (id, fingerprint, host, product_version, token_ends_at, occupied_until)`
}

// Decisions 5: this many per licence and UTC day free their place immediately.
const freedAtOnce = 10

/**
 * Frees an activation and its lease, with an entry in the licence's history, under the licence's lock. If a product frees
 * its own, the place stays occupied until its last token has ended, except for the first ten per day: otherwise one licence
 * could run on any number of machines one after the other, each with a token for a day. Of the entries that products cause,
 * the oldest are deleted if there are more than the account's quota allows.
 *
 * @returns false if the licence has no such activation
 */
export async function freeActivation(
  sql: Sql,
  scope: LicenceScope,
  activationId: string,
  { actor, isItsOwn }: { actor: string; isItsOwn: boolean },
): Promise<boolean> {
  // A separate statement, so that the next one sees everything committed while this one waited for the lock.
  const [licence] = await sql<{ id: string; account_id: string; status: LicenceStatus; counts: boolean }[]>`
    select l.id, l.account_id, l.status, ${isItsOwn} and l.max_activations is not null as counts
    from licences l where ${inScope(sql, scope)} for update`
  if (!licence) return false
  const { count } = await sql`
    with freed as (
      delete from activations where id = ${activationId} and licence_id = ${licence.id}
      returning id, fingerprint, token_ends_at
    ),
    placed as (
      insert into freed_places (activation_id, licence_id, fingerprint, takes_place, freed_at, token_ends_at)
      select id, ${licence.id}, fingerprint, (
          select count(*) from freed_places
          where licence_id = ${licence.id} and not takes_place and freed_at >= date_trunc('day', now(), 'UTC')
        ) >= ${freedAtOnce}, now(), token_ends_at
      from freed where ${licence.counts} and token_ends_at > now()
    ),
    lease as (
      delete from leases where activation_id = ${activationId} and exists (select from freed) returning counted
    ),
    counted as (
      update floating_licences
      set activations = activations - 1, leases = leases - (select count(*) from lease where counted)
      where licence_id = ${licence.id} and exists (select from freed)
    ),
    forgotten as (
      delete from licence_history
      where licence_id = ${licence.id} and position = any(array(
        select position from licence_history
        where licence_id = ${licence.id} and type = 'activation_freed' and actor = 'product' and exists (select from freed)
        order by position desc
        -- The new entry counts too.
        offset greatest(${quotaValue(sql, licence.account_id, 'deactivations')} - 1, 0) limit 1000
      ))
    )
    insert into licence_history (licence_id, at, type, from_status, to_status, actor, cause)
    select ${licence.id}, clock_timestamp(), ${freedEntry}, ${licence.status}, ${licence.status}, ${actor}, id from freed`
  return count === 1
}

/** Deletes freed places that no longer count. @returns how many; if `limit` or more, there may be others */
export async function deleteFreedPlaces(sql: Sql, limit: number): Promise<number> {
  const { count } = await sql`
    delete from freed_places where ctid = any(
      array(
        select ctid from freed_places where takes_place and token_ends_at <= now()
        order by token_ends_at limit ${limit} for update skip locked
      ) || array(
        select ctid from freed_places where not takes_place and freed_at < date_trunc('day', now(), 'UTC')
        order by freed_at limit ${limit} for update skip locked
      )
    )`
  return count
}

/** An activation as the vendor sees it. */
export interface ActivationRow {
  id: string
  fingerprint: string
  host: string
  product_version: string
  created_at: Date
  last_seen_at: Date
  lease_ends_at: Date | null
}

/** A page of a licence's activations, newest first; undefined if there is no such licence. */
export async function listActivationRows(
  sql: Sql,
  scope: LicenceScope,
  page: PageRequest,
): Promise<ActivationRow[] | undefined> {
  const rows = await sql<(ActivationRow | { id: null })[]>`
    select a.id, a.fingerprint, a.host, a.product_version, a.created_at, a.last_seen_at,
      (select ends_at from leases where activation_id = a.id) as lease_ends_at
    from licences l left join lateral (
      select id, fingerprint, host, product_version, created_at, last_seen_at from activations
      where licence_id = l.id ${page.beforeId === '' ? sql`` : sql`and id < ${page.beforeId}`}
      order by id desc limit ${rowsFor(page.limit)}
    ) a on true
    where ${inScope(sql, scope)}
    order by a.id desc`
  if (rows.length === 0) return undefined
  return rows.filter((row) => row.id !== null)
}
