import type { Sql } from '@licensing/database/connect'
import type { LicenceStatus } from '@licensing/proto/closed-sets'

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

/** How many places of a licence are taken, and the activations that these fingerprints have, by fingerprint. */
export async function findPlaces(
  sql: Sql,
  licenceId: string,
  fingerprints: string[],
): Promise<{ taken: number; known: Map<string, string> }> {
  const rows = await sql<{ taken: number; id: string | null; fingerprint: string }[]>`
    select (select count(*)::int from activations where licence_id = ${licenceId}) as taken, a.id, a.fingerprint
    from (values (0)) as always
    left join activations a on a.licence_id = ${licenceId} and a.fingerprint = any(${fingerprints}::text[])`
  const known = rows.flatMap(({ id, fingerprint }) => (id === null ? [] : [[fingerprint, id] as const]))
  return { taken: rows[0]!.taken, known: new Map(known) }
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

/** @returns false where it was freed before */
export async function deleteActivation(sql: Sql, activationId: string): Promise<boolean> {
  const { count } = await sql`delete from activations where id = ${activationId}`
  return count === 1
}
