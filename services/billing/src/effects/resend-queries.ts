import type { Sql, Transaction } from '@licensing/database/connect'
import { stays } from '@licensing/moves/move-queries'
import { locks } from '@licensing/database/locks'
import { lockPurchases } from './effect-queries.ts'

/** The greatest epoch of licensing's database that has answered; 0 if none has. */
export async function findLicensingEpoch(sql: Sql): Promise<bigint> {
  const [row] = await sql<{ ordinal: bigint }[]>`select ordinal from licensing_epoch`
  return row!.ordinal
}

/** Like `findLicensingEpoch`. Until the transaction ends, no later epoch is written. */
export async function holdLicensingEpoch(tx: Transaction): Promise<bigint> {
  await tx`select pg_advisory_xact_lock_shared(${locks.licensingEpoch})`
  return findLicensingEpoch(tx)
}

// The clocks of the databases of billing and licensing may differ.
const margin = '1 hour'

/**
 * Writes a later epoch of licensing's database. What was done since it was last alive before that epoch is sent again.
 *
 * @returns false if another replica has written it
 */
export async function adoptLicensingEpoch(
  tx: Transaction,
  { ordinal, aliveAt }: { ordinal: bigint; aliveAt: Date },
): Promise<boolean> {
  await tx`select pg_advisory_xact_lock(${locks.licensingEpoch})`
  const before = await findLicensingEpoch(tx)
  if (before >= ordinal) return false
  await tx`update licensing_epoch set ordinal = ${ordinal}`
  if (before > 0n) {
    await tx`
      insert into effect_resends (since, until)
      values (${aliveAt}::timestamptz - ${margin}::interval, clock_timestamp())`
  }
  return true
}

/** @returns how many effects were done since then and are sent again */
export async function insertResend(
  tx: Transaction,
  since: Date,
  accountId: string | undefined,
): Promise<bigint> {
  const [row] = await tx<{ effects: bigint }[]>`
    with resend as (
      insert into effect_resends (account_id, since, until)
      values (${accountId ?? null}, ${since}, clock_timestamp()) returning *
    )
    select count(*) as effects from resend r join purchase_effects e on ${isInTime(tx)}`
  return row!.effects
}

const isInTime = (sql: Sql) => sql`
  e.state = 'done' and e.kind is not null and e.done_at >= r.since and e.done_at < r.until and ${stays(sql, 'e.account_id')}
  and (r.account_id is null or r.account_id = e.account_id)`

/**
 * Makes effects wait again that were done in a time of which licensing may have lost them.
 *
 * @returns how many purchases of at most `limit` effects they belong to; undefined if nothing is to be sent again
 */
export async function resendSome(tx: Transaction, limit: number): Promise<number | undefined> {
  const [resend] = await tx<{ id: bigint }[]>`
    select id from effect_resends order by id limit 1 for update skip locked`
  if (!resend) return undefined
  const rows = await tx<{ purchase_ref: string }[]>`
    select distinct purchase_ref from (
      select e.purchase_ref from effect_resends r join purchase_effects e on ${isInTime(tx)}
      where r.id = ${resend.id} order by e.done_at limit ${limit}
    ) first`
  const refs = rows.map((row) => row.purchase_ref)
  if (refs.length === 0) await tx`delete from effect_resends where id = ${resend.id}`
  await lockPurchases(tx, refs)
  await tx`
    update purchase_effects e set state = 'waiting', sent_again = true from effect_resends r
    where r.id = ${resend.id} and e.purchase_ref = any(${refs}) and ${isInTime(tx)}`
  await sendNow(tx, refs)
  return refs.length
}

/** Makes all effects of these purchases wait again. The caller has locked them and says when they are sent. */
export async function resendPurchases(tx: Transaction, purchaseRefs: string[]): Promise<void> {
  if (purchaseRefs.length === 0) return
  await tx`
    update purchase_effects set state = 'waiting', sent_again = true
    where purchase_ref = any(${purchaseRefs}) and state = 'done' and kind is not null`
}

/** @returns which of these effects wait and have not been reported to their vendor before */
export async function markReported(tx: Transaction, positions: bigint[]): Promise<Set<bigint>> {
  if (positions.length === 0) return new Set()
  const rows = await tx<{ position: bigint }[]>`
    update purchase_effects set sent_again = true
    where position = any(${positions.map(String)}::bigint[]) and state = 'waiting' and not sent_again
    returning position`
  return new Set(rows.map((row) => row.position))
}

async function sendNow(tx: Transaction, purchaseRefs: string[]): Promise<void> {
  await tx`
    update purchases set send_at = least(send_at, clock_timestamp()) where purchase_ref = any(${purchaseRefs})`
}
