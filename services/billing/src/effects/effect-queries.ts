import type { Sql, Transaction } from '@licensing/database/connect'
import { closedSets } from '@licensing/proto/closed-sets'
import type { Metadata } from '@licensing/proto/metadata'
import { characters } from '@licensing/proto/text'
import { insertRows, rowsOf } from '@licensing/database/row-queries'
import type { DuePurchase } from '../queues/queue-queries.ts'
import { pauseAfter } from '@licensing/process/retry'
import { maxPostponements, timing } from '../timing.ts'
import { isRevocation } from './effect.ts'
import type { Effect } from './effect.ts'

export interface EffectRow extends Effect {
  position: bigint
  purchase_ref: string
  /** The reference by which licensing knows the purchase: the cause of its payment. */
  known_as: string
  account_id: string
  application_id: string
  /** Whether the vendor has been sent its events, or the alert that its purchase was lost. */
  sent_again: boolean
}

const revocations = closedSets.purchaseEffect.filter((kind) => isRevocation({ kind }))

/** Waiting effects in the order of each purchase. Effects of new purchases come first. */
export async function findWaitingEffects(sql: Sql, purchaseRefs: string[]): Promise<EffectRow[]> {
  return sql<EffectRow[]>`
    select e.position, e.purchase_ref, paid.cause as known_as, e.account_id, e.application_id, e.kind, e.cause, e.at,
      e.ordered_at, e.plan_id, e.external_ref, e.ends_at, e.updates_until, e.since, e.metadata, e.renews, e.refund_id,
      e.sent_again
    from purchase_effects e
    join purchase_effects paid on paid.purchase_ref = e.purchase_ref and paid.effect_key = 'paid'
    where e.purchase_ref = any(${purchaseRefs}) and e.state = 'waiting'
    order by e.kind is distinct from 'paid', e.purchase_ref, e.position`
}

/**
 * Positions of revocations that must wait, because something may turn out to prevent them: an event of the merchant that
 * had arrived when the revocation was decided and is not recorded, or another purchase of the customer that is paid or
 * still to be decided, and has no licence yet.
 */
export async function findPostponedRevocations(sql: Sql, purchaseRefs: string[]): Promise<Set<bigint>> {
  const rows = await sql<{ position: bigint }[]>`
    select e.position
    from purchase_effects e
    join purchases f on f.purchase_ref = e.purchase_ref and f.attempts < ${maxPostponements}
    join purchase_effects s on s.purchase_ref = e.purchase_ref and s.effect_key = 'paid'
    left join checkout_sessions c on c.id = e.purchase_ref
    where e.purchase_ref = any(${purchaseRefs}) and e.kind = any(${revocations}) and e.state = 'waiting' and (
      exists (
        select 1 from processor_events i
        where i.merchant = c.merchant and i.handled_at is null and not i.dead_lettered and i.attempts = 0
          and i.received_at <= e.decided_at
      )
      or exists (
        select 1 from checkout_sessions o left join purchases w on w.purchase_ref = o.id
        where o.application_id = s.application_id and o.external_ref = s.external_ref and o.id <> s.purchase_ref
          and o.status = 'open' and (o.paid_at is not null or w.decide_at is not null)
      )
      or exists (
        select 1 from purchase_effects l
        where l.application_id = s.application_id and l.external_ref = s.external_ref
          and l.kind = 'paid' and l.state = 'waiting' and l.purchase_ref <> s.purchase_ref
      )
    )`
  return new Set(rows.map((row) => row.position))
}

/**
 * Locks purchases in the order of their references, so that two transactions cannot deadlock.
 *
 * @returns the plan of each purchase's licence, by the last answer of licensing
 */
export async function lockPurchases(
  tx: Transaction,
  purchaseRefs: string[],
): Promise<Map<string, string | null>> {
  const rows = await tx<{ purchase_ref: string; licence_plan_id: string | null }[]>`
    select purchase_ref, licence_plan_id from purchases
    where purchase_ref = any(${purchaseRefs}) order by purchase_ref for update`
  return new Map(rows.map((row) => [row.purchase_ref, row.licence_plan_id]))
}

/** @returns the effects that were not done before, or wait to be sent again */
export async function finishEffects(tx: Transaction, positions: bigint[]): Promise<Set<bigint>> {
  const rows = await tx<{ position: bigint }[]>`
    update purchase_effects set state = 'done', done_at = clock_timestamp()
    where position = any(${positions.map(String)}::bigint[]) and state <> 'done' returning position`
  return new Set(rows.map((row) => row.position))
}

export type LostRenewal = Pick<EffectRow, 'purchase_ref' | 'account_id' | 'application_id' | 'cause'>

/** Renewals that were applied before it became known that the purchase had ended earlier. */
export async function findLostRenewals(tx: Transaction, end: bigint): Promise<LostRenewal[]> {
  return tx<LostRenewal[]>`
    select r.purchase_ref, r.account_id, r.application_id, r.cause
    from purchase_effects g join purchase_effects r on r.purchase_ref = g.purchase_ref
    where g.position = ${end}
      and r.kind = 'renewed' and r.state = 'done' and r.position < g.position and r.at > g.at
      and not exists (
        select 1 from purchase_effects first
        where first.purchase_ref = g.purchase_ref and first.state = 'done' and first.position < g.position
          and (first.kind = any(${revocations}) or first.kind = 'cancelled' and first.at < r.at)
      )`
}

/** Whether it was known that the purchase had been cancelled when this effect was decided, and before it happened. */
export async function isAfterCancellation(
  tx: Transaction,
  { purchase_ref, position, at }: Pick<EffectRow, 'purchase_ref' | 'position' | 'at'>,
): Promise<boolean> {
  const rows = await tx`
    select from purchase_effects
    where purchase_ref = ${purchase_ref} and effect_key = 'cancelled' and position < ${position} and at < ${at}`
  return rows.count > 0
}

/**
 * Stops all waiting effects of these purchases until they are replayed, unless the purchase has been provisioned since: then
 * the refusal has arrived late.
 *
 * @returns the purchases that it stopped
 */
export async function refuseEffects(tx: Transaction, purchaseRefs: string[]): Promise<Set<string>> {
  const rows = await tx<{ purchase_ref: string }[]>`
    update purchase_effects e set state = 'refused'
    where e.purchase_ref = any(${purchaseRefs}) and e.state = 'waiting' and exists (
      select from purchase_effects p
      where p.purchase_ref = e.purchase_ref and p.kind = 'paid' and p.state = 'waiting'
    )
    returning e.purchase_ref`
  return new Set(rows.map((row) => row.purchase_ref))
}

/** Makes refused effects wait again. @returns false if none was refused */
export async function retryRefused(tx: Transaction, purchaseRefs: string[]): Promise<boolean> {
  const { count } = await tx`
    update purchase_effects set state = 'waiting'
    where purchase_ref = any(${purchaseRefs}) and state = 'refused'`
  return count > 0
}

const leaseEnds = (sql: Sql) => sql`clock_timestamp() + ${timing.lease}::int * interval '1 millisecond'`

/** Keeps other replicas from sending the purchase's effects while the caller does. */
export async function leaseSending(sql: Sql, purchaseRef: string): Promise<void> {
  await sql`
    update purchases set send_at = ${leaseEnds(sql)} where purchase_ref = ${purchaseRef}`
}

/** Like `leaseSending`, if effects of the purchase are waiting. @returns whether any are */
export async function leaseWaiting(tx: Transaction, purchaseRef: string): Promise<boolean> {
  const { count } = await tx`
    update purchases set send_at = ${leaseEnds(tx)} where purchase_ref = ${purchaseRef} and send_at is not null`
  return count > 0
}

/** Lets other replicas send purchases that the caller leased and has not sent. */
export async function releaseSending(sql: Sql, purchaseRefs: string[]): Promise<void> {
  if (purchaseRefs.length === 0) return
  await sql`
    update purchases set send_at = clock_timestamp() + ${timing.poll}::int * interval '1 millisecond'
    where purchase_ref = any(${purchaseRefs})`
}

/** Writes when each purchase is sent again: never if no effect waits, later if it failed, otherwise at once. */
export async function writeSent(
  tx: Transaction,
  tried: (Pick<DuePurchase, 'purchase_ref' | 'attempts' | 'is_late'> & { licence_plan_id: string | null })[],
): Promise<void> {
  const rows = tried.map(({ purchase_ref, attempts, is_late, licence_plan_id }) => {
    const pause_ms =
      attempts === 0 ? 0 : pauseAfter(is_late ? timing.retryLate : timing.retryEffect, attempts)
    return { purchase_ref, attempts, is_late, licence_plan_id, pause_ms }
  })
  const columns = {
    purchase_ref: 'text',
    attempts: 'int',
    is_late: 'boolean',
    licence_plan_id: 'text',
    pause_ms: 'int',
  } as const
  await tx`
    update purchases f set attempts = t.attempts, is_late = t.is_late, licence_plan_id = t.licence_plan_id,
      send_at = case when exists (
        select 1 from purchase_effects e where e.purchase_ref = f.purchase_ref and e.state = 'waiting'
      ) then clock_timestamp() + t.pause_ms * interval '1 millisecond' end
    from ${rowsOf(tx, columns, rows)} t
    where f.purchase_ref = t.purchase_ref`
}

// Licensing takes references of at most 255 characters.
const maxSaleIdLength = 255 - 'sale:'.length

/** The reference by which licensing knows a sale: the shop's own id, if it is short enough. */
function nameOf({ id, sale_id: saleId }: SalePurchase): string {
  return characters(saleId) <= maxSaleIdLength ? `sale:${saleId}` : id
}

export interface SalePurchase {
  id: string
  account_id: string
  application_id: string
  plan_id: string
  external_ref: string
  occurred_at: Date
  expires_on: Date | null
  updates_until: Date | null
  metadata: Metadata
  sale_id: string
}

/** Adds a sale as a purchase that was paid at its own time. The caller sends it. */
export async function insertSalePurchase(tx: Transaction, sale: SalePurchase): Promise<void> {
  const { id, account_id, application_id, plan_id, external_ref, occurred_at } = sale
  await tx`
    insert into purchases (purchase_ref, account_id, send_at, ordered_at)
    values (${id}, ${account_id}, ${leaseEnds(tx)}, ${occurred_at})
    on conflict do nothing`
  const paid: Partial<EffectRow> & { effect_key: string } = {
    purchase_ref: id,
    effect_key: 'paid',
    account_id,
    application_id,
    kind: 'paid',
    cause: nameOf(sale),
    at: occurred_at,
    ordered_at: occurred_at,
    plan_id,
    external_ref,
    ends_at: sale.expires_on,
    updates_until: sale.updates_until,
    metadata: sale.metadata,
    renews: false,
  }
  await insertRows(tx, 'purchase_effects', [paid], tx`on conflict do nothing`)
}
