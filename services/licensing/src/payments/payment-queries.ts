import type { Sql } from '@licensing/database/connect'
import { inScope, standingColumns, statusIn } from '../licences/licence-queries.ts'
import type { LicenceScope, StandingRow } from '../licences/licence-queries.ts'
import { licenceColumns } from '../licences/licence-row.ts'
import type { LicenceRow } from '../licences/licence-row.ts'
import { beginnings, held } from '../licences/licence.ts'
import type { Cause } from '../licences/licence.ts'

export async function lockLicence(sql: Sql, scope: LicenceScope): Promise<StandingRow | undefined> {
  const [row] = await sql<StandingRow[]>`
    select ${standingColumns(sql)} from licences l where ${inScope(sql, scope)} for update`
  return row
}

/** One payment of a customer at a time: two that race must not both find that there is no licence yet. */
export async function lockExternalRef(sql: Sql, applicationId: string, externalRef: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`${applicationId} ${externalRef}`}, 0))`
}

/** The licence that the customer holds: the newest in a status that a payment can change, locked. */
export async function lockNewestHeld(
  sql: Sql,
  customer: { accountId: string; applicationId: string; externalRef: string },
): Promise<StandingRow | undefined> {
  const [row] = await sql<StandingRow[]>`
    select ${standingColumns(sql)} from licences l
    where l.application_id = ${customer.applicationId} and l.account_id = ${customer.accountId}
      and l.external_ref = ${customer.externalRef} and ${statusIn(sql, held)}
    order by l.id desc limit 1 for update`
  return row
}

export async function findProvision(
  sql: Sql,
  applicationId: string,
  paymentRef: string,
): Promise<(LicenceRow & { created: boolean }) | undefined> {
  const [row] = await sql<(LicenceRow & { created: boolean })[]>`
    select ${licenceColumns(sql)}, p.created
    from provisions p join licences l on l.id = p.licence_id
    where p.application_id = ${applicationId} and p.payment_ref = ${paymentRef}`
  return row
}

export async function insertProvision(
  sql: Sql,
  provision: { applicationId: string; paymentRef: string; licenceId: string; created: boolean },
): Promise<void> {
  await sql`
    insert into provisions (application_id, payment_ref, licence_id, created)
    values (${provision.applicationId}, ${provision.paymentRef}, ${provision.licenceId}, ${provision.created})`
}

/** False where the same consequence of the same cause has been drawn before. */
export async function claimCause(
  sql: Sql,
  licenceId: string,
  effect: Cause,
  cause: string,
): Promise<boolean> {
  const claimed = await sql`
    insert into payment_causes (licence_id, effect, cause) values (${licenceId}, ${effect}, ${cause})
    on conflict do nothing`
  return claimed.count === 1
}

export async function insertPaidLicence(
  sql: Sql,
  licence: {
    id: string
    key: string
    accountId: string
    applicationId: string
    planId: string
    snapshotId: string
    externalRef: string
    expiresOn: Date | null
  },
): Promise<LicenceRow> {
  const [row] = await sql<LicenceRow[]>`
    insert into licences as l (id, key, account_id, application_id, plan_id, status, external_ref, expires_on,
      snapshot_id)
    values (${licence.id}, ${licence.key}, ${licence.accountId}, ${licence.applicationId}, ${licence.planId},
      ${beginnings.bought.to}, ${licence.externalRef}, ${licence.expiresOn}, ${licence.snapshotId})
    returning ${licenceColumns(sql)}`
  return row!
}
