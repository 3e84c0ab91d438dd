import type { Sql } from '@licensing/database/connect'
import type { HistoryType, LicenceStatus } from '@licensing/proto/closed-sets'
import { quotaValue } from '@licensing/quotas/quota-queries'
import { inScope } from '../lifecycle/licence-queries.ts'
import type { LicenceScope } from '../lifecycle/licence-queries.ts'

const freedEntry: HistoryType = 'activation_freed'

/** The actors in the history if a product or the customer frees an activation. */
export const byProduct = 'product'
export const byCustomer = 'customer'

/** The licence whose activations are freed. The transaction has locked it. */
export interface LockedLicence {
  id: string
  account_id: string
  status: LicenceStatus
  max_activations: number | null
  max_concurrent: number | null
}

/** @returns undefined if there is no such licence */
export async function lockLicence(sql: Sql, scope: LicenceScope): Promise<LockedLicence | undefined> {
  // Statements after this one see everything committed while it waited for the lock.
  const [licence] = await sql<LockedLicence[]>`
    select l.id, l.account_id, l.status, l.max_activations, l.max_concurrent from licences l
    where ${inScope(sql, scope)} for update`
  return licence
}

/**
 * Frees activations of a licence and their leases, with entries in the history. If products and
 * customers cause more entries than the account's quota allows, the oldest of these are deleted.
 *
 * @returns how many it has freed
 */
export async function freeActivations(
  sql: Sql,
  licence: Pick<LockedLicence, 'id' | 'account_id' | 'status'>,
  activationIds: string[],
  actor: string,
): Promise<number> {
  const { count } = await sql`
    with locked as materialized (
      select id from activations where id = any(${activationIds}::text[]) and licence_id = ${licence.id}
      order by id for update
    ),
    freed as (
      delete from activations where id = any(array(select id from locked)) returning id
    ),
    lease as (
      delete from leases where activation_id = any(array(select id from locked)) returning counted
    ),
    counted as (
      update floating_licences
      set activations = activations - (select count(*) from freed),
        leases = leases - (select count(*) from lease where counted)
      where licence_id = ${licence.id} and exists (select from freed)
    ),
    forgotten as (
      delete from licence_history
      where ${actor === byProduct || actor === byCustomer} and licence_id = ${licence.id} and position = any(array(
        select position from licence_history
        where licence_id = ${licence.id} and type = 'activation_freed' and actor in ('product', 'customer')
          and exists (select from freed)
        order by position desc
        -- The new entries count too.
        offset greatest(
          ${quotaValue(sql, licence.account_id, 'deactivations')} - (select count(*) from freed), 0
        ) limit 1000
      ))
    )
    insert into licence_history (licence_id, at, type, from_status, to_status, actor, cause)
    select ${licence.id}, clock_timestamp(), ${freedEntry}, ${licence.status}, ${licence.status}, ${actor}, id
    from freed order by id`
  return count
}

export interface OwnActivation {
  id: string
  /** Whether it has a token that lasts longer than its file. */
  is_running: boolean
  /** Whether it holds a lease. */
  has_lease: boolean
}

/** Locks the activations that their products have not deactivated, so that they get no token meanwhile. */
export async function lockOwn(
  sql: Sql,
  licenceId: string,
  activationIds: string[],
): Promise<Map<string, OwnActivation>> {
  const rows = await sql<OwnActivation[]>`
    select id, coalesce(token_ends_at > greatest(offline_until, clock_timestamp()), false) as is_running,
      exists (
        select from leases where activation_id = id and counted and ends_at > clock_timestamp()
      ) as has_lease
    from activations
    where id = any(${activationIds}::text[]) and licence_id = ${licenceId} and held_until is null
    order by id for update`
  return new Map(rows.map((row) => [row.id, row]))
}

/**
 * Keeps the slot of an activation that its product deactivates until its file has ended, and until its last token has
 * ended if `keepsToken`.
 *
 * @returns false if there is nothing to wait for
 */
export async function holdSlot(sql: Sql, activationId: string, keepsToken: boolean): Promise<boolean> {
  const { count } = await sql`
    update activations a set held_until = held.until
    from (
      select greatest(offline_until, case when ${keepsToken} then token_ends_at end) as until
      from activations where id = ${activationId}
    ) held
    where a.id = ${activationId} and held.until > clock_timestamp()`
  return count === 1
}

// Per licence and UTC day (docs/guides/products.md, "Limit the number of machines").
export const freesPerDay = { own: 10, oldest: 5 }

/** Counts what a product or the customer frees, under the licence's lock. @returns false if it is too much for today */
export async function countToday(
  sql: Sql,
  licenceId: string,
  what: 'own' | 'oldest' | 'customer',
  maxPerDay: number,
): Promise<boolean> {
  if (maxPerDay < 1) return false
  const { count } = await sql`
    insert into freed_activations as f (licence_id, what, day, times)
    values (${licenceId}, ${what}, (clock_timestamp() at time zone 'UTC')::date, 1)
    on conflict (licence_id, what) do update set day = excluded.day,
      times = case when f.day = excluded.day then f.times + 1 else 1 end
    where f.day <> excluded.day or f.times < ${maxPerDay}`
  return count === 1
}

/** Until when the licence file of an activation is valid, if it has one. @returns undefined if there is no such activation */
export async function fileEndOf(
  sql: Sql,
  licenceId: string,
  activationId: string,
): Promise<{ until: Date | null } | undefined> {
  const [row] = await sql<{ until: Date | null }[]>`
    select case when offline_until > clock_timestamp() then offline_until end as until
    from activations where id = ${activationId} and licence_id = ${licenceId}`
  return row
}

/**
 * The activation of a licence that called home longest ago. One that has a file, or that its product has deactivated, is
 * not taken.
 *
 * @param withLease only activations whose lease is counted
 */
export async function findOldest(
  sql: Sql,
  licenceId: string,
  { withLease }: { withLease: boolean },
): Promise<string | undefined> {
  const [row] = await sql<{ id: string }[]>`
    select a.id from activations a
    where a.licence_id = ${licenceId} and a.held_until is null
      and (a.offline_until is null or a.offline_until <= clock_timestamp())
      and (not ${withLease} or exists (select from leases where activation_id = a.id and counted))
    order by a.last_seen_at, a.id limit 1`
  return row?.id
}
