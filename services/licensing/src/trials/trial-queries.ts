import type { Sql } from '@licensing/database/connect'
import type { PlanStatus } from '@licensing/proto/closed-sets'
import { initialStatus } from '../lifecycle/licence.ts'

const onTrial = initialStatus['on trial']
const refPrefix = 'trial_'

/** A machine in an application. */
export interface Machine {
  applicationId: string
  fingerprintHash: Buffer
}

export interface TrialPlan {
  id: string
  account_id: string
  status: PlanStatus
  snapshot_id: string
  trial_days: number | null
}

/** @param lock locks the plan shared, so that it cannot be archived meanwhile */
export async function findTrialPlan(sql: Sql, planId: string, lock: boolean): Promise<TrialPlan | undefined> {
  const [row] = await sql<TrialPlan[]>`
    select id, account_id, status, snapshot_id, trial_days from plans where id = ${planId}
    ${lock ? sql`for share` : sql``}`
  return row
}

export interface Trial {
  licence_id: string
  key: string
  plan_id: string
  /** False if a customer has the licence: then it has another reference, or was paid for. */
  is_trial: boolean
}

/** The trial that a machine has had. Locks its licence. */
export async function lockTrial(
  sql: Sql,
  { applicationId, fingerprintHash }: Machine,
): Promise<Trial | undefined> {
  const [row] = await sql<Trial[]>`
    select l.id as licence_id, l.key, l.plan_id, l.trial and l.external_ref = ${refPrefix} || l.id as is_trial
    from trials t join licences l on l.id = t.licence_id
    where t.application_id = ${applicationId} and t.fingerprint_hash = ${fingerprintHash} for update of l`
  return row
}

/** @returns false if another transaction has just inserted the machine's trial */
export async function insertTrial(
  sql: Sql,
  { applicationId, fingerprintHash }: Machine,
  licenceId: string,
): Promise<boolean> {
  const { count } = await sql`
    insert into trials (application_id, fingerprint_hash, licence_id)
    values (${applicationId}, ${fingerprintHash}, ${licenceId}) on conflict do nothing`
  return count === 1
}

/**
 * Counts a new trial. A transaction that began before midnight counts for the new day if another one has counted for that
 * already.
 *
 * @returns how many the application has started on this UTC day
 */
export async function countTrial(sql: Sql, applicationId: string): Promise<number> {
  const [row] = await sql<{ started: number }[]>`
    insert into trial_days as counted (application_id, day, started)
    values (${applicationId}, (now() at time zone 'UTC')::date, 1)
    on conflict (application_id) do update set
      day = greatest(counted.day, excluded.day),
      started = case when counted.day >= excluded.day then counted.started + 1 else 1 end
    returning started`
  return row!.started
}

/** Counts a new trial for an address. @returns how many of the application have started from it on this UTC day */
export async function countTrialOfAddress(
  sql: Sql,
  { applicationId, addressHash }: { applicationId: string; addressHash: Buffer },
): Promise<number> {
  const [row] = await sql<{ started: number }[]>`
    insert into trial_addresses as counted (application_id, address_hash, day, started)
    values (${applicationId}, ${addressHash}, (now() at time zone 'UTC')::date, 1)
    on conflict (application_id, address_hash) do update set
      day = greatest(counted.day, excluded.day),
      started = case when counted.day >= excluded.day then counted.started + 1 else 1 end
    returning started`
  return row!.started
}

/** Deletes the counts of earlier days. @returns how many; if `limit` or more, there may be others */
export async function deleteOldTrialAddresses(sql: Sql, limit: number): Promise<number> {
  const { count } = await sql`
    delete from trial_addresses where ctid = any(array(
      select ctid from trial_addresses where day < (now() at time zone 'UTC')::date limit ${limit} for update skip locked
    ))`
  return count
}

/** Inserts the licence of a trial. The transaction has locked the plan. */
export async function insertTrialLicence(
  sql: Sql,
  { id, key, applicationId, plan }: { id: string; key: string; applicationId: string; plan: TrialPlan },
): Promise<void> {
  await sql`
    insert into licences (id, key, account_id, application_id, plan_id, status, external_ref, max_activations,
      expires_on, snapshot_id, trial, trial_limit)
    values (${id}, ${key}, ${plan.account_id}, ${applicationId}, ${plan.id}, ${onTrial.status}, ${refPrefix + id}, 1,
      now() + ${plan.trial_days}::int * interval '24 hours', ${plan.snapshot_id}, true, true)`
}
