import type { Sql } from '@licensing/database/connect'
import { inScope } from '../licences/licence-queries.ts'
import type { LicenceScope } from '../licences/licence-queries.ts'
import { licenceColumns } from '../licences/licence-row.ts'
import type { LicenceRow } from '../licences/licence-row.ts'
import type { LicenceStatus } from '../licences/licence.ts'
import type { Standing } from './effects.ts'

export type PaidLicence = LicenceRow & {
  expired_from: LicenceStatus | null
  expired_from_reason: string | null
}

const paidColumns = (sql: Sql) => sql`${licenceColumns(sql)}, l.expired_from, l.expired_from_reason`

export async function lockLicence(sql: Sql, scope: LicenceScope): Promise<PaidLicence | undefined> {
  const [row] = await sql<PaidLicence[]>`
    select ${paidColumns(sql)} from licences l where ${inScope(sql, scope)} for update`
  return row
}

/** One payment of a customer at a time: two that race must not both find that there is no licence yet. */
export async function lockExternalRef(sql: Sql, applicationId: string, externalRef: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`${applicationId} ${externalRef}`}, 0))`
}

/** The licence that the customer holds: the newest that is not revoked or retired, locked. */
export async function lockNewestHeld(
  sql: Sql,
  customer: { accountId: string; applicationId: string; externalRef: string },
): Promise<PaidLicence | undefined> {
  const [row] = await sql<PaidLicence[]>`
    select ${paidColumns(sql)} from licences l
    where l.application_id = ${customer.applicationId} and l.account_id = ${customer.accountId}
      and l.external_ref = ${customer.externalRef} and l.status not in ('revoked', 'retired')
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
  effect: string,
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
      'active', ${licence.externalRef}, ${licence.expiresOn}, ${licence.snapshotId})
    returning ${licenceColumns(sql)}`
  return row!
}

/** Writes what a payment made of a licence that this transaction has locked. */
export async function writeStanding(
  sql: Sql,
  licenceId: string,
  standing: Standing,
  plan?: { id: string; snapshot_id: string },
): Promise<LicenceRow> {
  const [row] = await sql<LicenceRow[]>`
    update licences l set
      status = ${standing.status}, status_reason = ${standing.reason}, expires_on = ${standing.expiresOn},
      expired_from = ${standing.expiredFrom}, expired_from_reason = ${standing.expiredFromReason},
      updated_at = clock_timestamp()
      ${plan ? sql`, plan_id = ${plan.id}, snapshot_id = ${plan.snapshot_id}` : sql``}
    where l.id = ${licenceId}
    returning ${licenceColumns(sql)}`
  return row!
}

/** An expiry by the sweep becomes final: no renewal takes it back any more. */
export async function makeExpiryFinal(sql: Sql, licenceId: string): Promise<void> {
  await sql`
    update licences set expired_from = null, expired_from_reason = null
    where id = ${licenceId} and status = 'expired' and expired_from is not null`
}
