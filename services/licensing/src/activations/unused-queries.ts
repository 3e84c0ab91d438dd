import type { Sql } from '@licensing/database/connect'
import { stays } from '@licensing/moves/move-queries'
import { byProduct, freeActivations } from './freeing-queries.ts'
import type { LockedLicence } from './freeing-queries.ts'

const idleSince = (sql: Sql) => sql`now() - interval '30 days'`

// A file holds its slot until it ends.
const hasNoFile = (sql: Sql) => sql`(a.offline_until is null or a.offline_until <= now())`

/** Licences that have activations without a lease for 30 days, or activations whose products have deactivated them. */
export async function findUnusedLicences(sql: Sql, limit: number): Promise<string[]> {
  const rows = await sql<{ licence_id: string }[]>`
    (
      select l.licence_id from leases l join activations a on a.id = l.activation_id
      where l.ends_at < ${idleSince(sql)} and ${hasNoFile(sql)} order by l.ends_at limit ${limit}
    )
    union
    (select licence_id from floating_licences where floating_since < ${idleSince(sql)} limit ${limit})
    union
    (select licence_id from activations where held_until <= now() order by held_until limit ${limit})`
  return rows.map((row) => row.licence_id)
}

/**
 * Frees activations of a licence that have had no lease for 30 days, and those that their products have deactivated and
 * that keep no slot any more. If another transaction has locked the licence, it frees none.
 *
 * @returns how many, at most `limit` of each
 */
export async function freeUnused(sql: Sql, licenceId: string, limit: number): Promise<number> {
  const [licence] = await sql<LockedLicence[]>`
    select id, account_id, status, max_activations, max_concurrent from licences
    where id = ${licenceId} and ${stays(sql, 'account_id')} for update skip locked`
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
  const idle = await sql<{ id: string }[]>`
    select a.id from leases l join activations a on a.id = l.activation_id
    where l.licence_id = ${licenceId} and l.ends_at < ${idleSince(sql)} and ${hasNoFile(sql)}
    limit ${limit}`
  const removed = await freeActivations(
    sql,
    licence,
    idle.map(({ id }) => id),
    'sweep',
  )
  return removed + (await freeHeld(sql, licence, limit))
}

/** Frees activations that their products have deactivated and that keep no slot any more. @returns how many */
export async function freeHeld(
  sql: Sql,
  licence: Pick<LockedLicence, 'id' | 'account_id' | 'status'>,
  limit: number,
): Promise<number> {
  const ended = await sql<{ id: string }[]>`
    select id from activations where licence_id = ${licence.id} and held_until <= now() limit ${limit}`
  if (ended.length === 0) return 0
  return freeActivations(
    sql,
    licence,
    ended.map(({ id }) => id),
    byProduct,
  )
}
