import type { Sql } from '@licensing/database/connect'
import type { HistoryType, LicenceStatus } from '@licensing/proto/closed-sets'
import { quotaValue } from '@licensing/quotas/quota-queries'
import { inScope } from '../licences/licence-queries.ts'
import type { LicenceScope } from '../licences/licence-queries.ts'

const freedEntry: HistoryType = 'activation_freed'

/** What decides whether a product may run, and what its token says. */
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
  expires_on: Date | null
}

export type ActivatedLicence = ProductLicence & { activation_id: string }

const licenceColumns = (sql: Sql) => sql`
  l.id, l.account_id, l.application_id, l.plan_id, l.snapshot_id, l.status, l.domains, l.max_activations,
  l.max_seats, l.expires_on`

/** Those of these keys that licences have. */
export async function findKnownKeys(sql: Sql, keys: string[]): Promise<string[]> {
  const rows = await sql<{ key: string }[]>`select key from licences where key = any(${keys}::text[])`
  return rows.map(({ key }) => key)
}

/** Locks the licence of a key, so that its places are given out one after the other. */
export async function lockLicenceOfKey(sql: Sql, key: string): Promise<ProductLicence | undefined> {
  const [row] = await sql<ProductLicence[]>`
    select ${licenceColumns(sql)} from licences l where l.key = ${key} for update`
  return row
}

export async function findActivation(sql: Sql, activationId: string): Promise<ActivatedLicence | undefined> {
  const [row] = await sql<ActivatedLicence[]>`
    select a.id as activation_id, ${licenceColumns(sql)}
    from activations a join licences l on l.id = a.licence_id
    where a.id = ${activationId}`
  return row
}

/**
 * How many places of a licence are taken and how many its account's quota allows, and the activations that these
 * fingerprints have, by fingerprint.
 */
export async function findPlaces(
  sql: Sql,
  { id: licenceId, account_id: accountId }: Pick<ProductLicence, 'id' | 'account_id'>,
  fingerprints: string[],
): Promise<{ taken: number; quota: number; known: Map<string, string> }> {
  const rows = await sql<{ taken: number; quota: number; id: string | null; fingerprint: string }[]>`
    select (select count(*)::int from activations where licence_id = ${licenceId}) as taken,
      ${quotaValue(sql, accountId, 'activations')} as quota, a.id, a.fingerprint
    from (values (0)) as always
    left join activations a on a.licence_id = ${licenceId} and a.fingerprint = any(${fingerprints}::text[])`
  const known = rows.flatMap(({ id, fingerprint }) => (id === null ? [] : [[fingerprint, id] as const]))
  const { taken, quota } = rows[0]!
  return { taken, quota, known: new Map(known) }
}

export interface NewActivation {
  id: string
  fingerprint: string
  host: string
  productVersion: string
}

export async function insertActivations(
  sql: Sql,
  licence: ProductLicence,
  activations: NewActivation[],
): Promise<void> {
  await sql`
    insert into activations (id, account_id, application_id, licence_id, fingerprint, host, product_version)
    select id, ${licence.account_id}, ${licence.application_id}, ${licence.id}, fingerprint, host, product_version
    from unnest(
      ${activations.map((activation) => activation.id)}::text[],
      ${activations.map((activation) => activation.fingerprint)}::text[],
      ${activations.map((activation) => activation.host)}::text[],
      ${activations.map((activation) => activation.productVersion)}::text[]
    ) as activation (id, fingerprint, host, product_version)`
}

/**
 * Frees an activation's place and writes it into the licence's history, under the licence's lock: the entry's status
 * is the licence's own.
 *
 * @returns false where there is no such activation of the licence, or it was freed before
 */
export async function freeActivation(
  sql: Sql,
  scope: LicenceScope,
  activationId: string,
  actor: string,
): Promise<boolean> {
  const { count } = await sql`
    with licence as materialized (
      select l.id, l.status from licences l where ${inScope(sql, scope)} for update
    ),
    freed as (
      delete from activations a using licence where a.id = ${activationId} and a.licence_id = licence.id
      returning a.id
    )
    insert into licence_history (licence_id, at, type, from_status, to_status, actor, cause)
    select licence.id, clock_timestamp(), ${freedEntry}, licence.status, licence.status, ${actor}, freed.id
    from licence, freed`
  return count === 1
}
