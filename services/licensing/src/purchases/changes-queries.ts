import type { Sql } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'
import type { LockedLicence } from './purchased-licence.ts'

export async function insertLicences(sql: Sql, licences: LockedLicence[]): Promise<void> {
  if (licences.length === 0) return
  await sql`
    insert into licences (id, key, account_id, application_id, plan_id, status, external_ref, expires_on, snapshot_id,
      governed_by, created_at, updated_at, metadata, updates_until, paid_updates_until, latest_event_at)
    select id, key, account_id, application_id, plan_id, status, external_ref, expires_on, snapshot_id,
      governed_by, created_at, updated_at, metadata, updates_until, paid_updates_until, latest_event_at
    from ${rowsOf(sql, 'licences', licences)}`
}

/** Writes licences that the transaction has locked. */
export async function updateLicences(sql: Sql, licences: LockedLicence[]): Promise<void> {
  if (licences.length === 0) return
  await sql`
    update licences l set
      status = n.status, status_reason = n.status_reason, hold = n.hold,
      purchase = n.purchase, plan_id = n.plan_id, snapshot_id = n.snapshot_id,
      expires_on = n.expires_on, governed_by = n.governed_by, updated_at = n.updated_at,
      reactivated_at = n.reactivated_at, metadata = n.metadata, updates_until = n.updates_until, trial = n.trial,
      trial_limit = n.trial_limit, max_activations = n.max_activations,
      paid_updates_until = n.paid_updates_until, latest_event_at = n.latest_event_at
    from ${rowsOf(sql, 'licences', licences)} n where l.id = n.id`
}
