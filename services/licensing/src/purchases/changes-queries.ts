import type { Sql } from '@licensing/database/connect'
import type { LockedLicence } from './purchased-licence.ts'

const columns = (licences: LockedLicence[]) => {
  const texts = <K extends keyof LockedLicence>(name: K) => licences.map((licence) => licence[name])
  const times = (name: 'expires_on' | 'updated_at' | 'reactivated_at' | 'updates_until') =>
    licences.map((licence) => licence[name]?.toISOString() ?? null)
  const metadata = licences.map((licence) => JSON.stringify(licence.metadata))
  return { texts, times, metadata }
}

export async function insertLicences(sql: Sql, licences: LockedLicence[]): Promise<void> {
  if (licences.length === 0) return
  const { texts, times, metadata } = columns(licences)
  await sql`
    insert into licences (id, key, account_id, application_id, plan_id, status, external_ref, expires_on, snapshot_id,
      rests_on, created_at, updated_at, metadata, updates_until)
    select id, key, account_id, application_id, plan_id, status, external_ref, expires_on::timestamptz, snapshot_id,
      rests_on, created_at::timestamptz, created_at::timestamptz, metadata::jsonb, updates_until::timestamptz
    from unnest(
      ${texts('id')}::text[], ${texts('key')}::text[], ${texts('account_id')}::text[],
      ${texts('application_id')}::text[], ${texts('plan_id')}::text[], ${texts('status')}::text[],
      ${texts('external_ref')}::text[], ${times('expires_on')}::text[], ${texts('snapshot_id')}::text[],
      ${texts('rests_on')}::text[], ${times('updated_at')}::text[], ${metadata}::text[],
      ${times('updates_until')}::text[]
    ) as licence (id, key, account_id, application_id, plan_id, status, external_ref, expires_on, snapshot_id, rests_on,
      created_at, metadata, updates_until)`
}

/** The transaction has locked these licences. */
export async function updateLicences(sql: Sql, licences: LockedLicence[]): Promise<void> {
  if (licences.length === 0) return
  const { texts, times, metadata } = columns(licences)
  await sql`
    update licences l set
      status = n.status, status_reason = n.status_reason, expired_from = n.expired_from,
      expired_from_reason = n.expired_from_reason, plan_id = n.plan_id, snapshot_id = n.snapshot_id,
      expires_on = n.expires_on::timestamptz, rests_on = n.rests_on, updated_at = n.updated_at::timestamptz,
      reactivated_at = n.reactivated_at::timestamptz, metadata = n.metadata::jsonb,
      updates_until = n.updates_until::timestamptz, trial = n.trial::boolean
    from unnest(
      ${texts('id')}::text[], ${texts('status')}::text[], ${texts('status_reason')}::text[],
      ${texts('expired_from')}::text[], ${texts('expired_from_reason')}::text[], ${texts('plan_id')}::text[],
      ${texts('snapshot_id')}::text[], ${times('expires_on')}::text[], ${texts('rests_on')}::text[],
      ${times('updated_at')}::text[], ${times('reactivated_at')}::text[], ${metadata}::text[],
      ${times('updates_until')}::text[], ${texts('trial').map(String)}::text[]
    ) as n (id, status, status_reason, expired_from, expired_from_reason, plan_id, snapshot_id, expires_on, rests_on,
      updated_at, reactivated_at, metadata, updates_until, trial)
    where l.id = n.id`
}
