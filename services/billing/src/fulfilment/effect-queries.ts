import type { Sql, Transaction } from '@licensing/database/connect'
import type { RefundLane } from '@licensing/proto/closed-sets'
import type { EffectKind } from './decision.ts'

export interface EffectRow {
  position: bigint
  purchase_ref: string
  account_id: string
  application_id: string
  kind: EffectKind | null
  cause: string
  at: Date
  ordered_at: Date
  plan_id: string | null
  external_ref: string | null
  ends_at: Date | null
  charged_back: boolean
  refund_id: string | null
}

/** Accounts with purchases whose effects wait, by id. */
export async function listCarryingAccounts(sql: Sql, after: string, most: number): Promise<string[]> {
  const rows = await sql<{ account_id: string }[]>`
    with recursive waiting as (
      (select account_id from fulfilments where carry_at is not null and account_id > ${after}
        order by account_id limit 1)
      union all
      select (
        select f.account_id from fulfilments f
        where f.carry_at is not null and f.account_id > w.account_id order by f.account_id limit 1
      )
      from waiting w where w.account_id is not null
    )
    select account_id from waiting w where account_id is not null and exists (
      select 1 from fulfilments f where f.account_id = w.account_id and f.carry_at <= clock_timestamp()
    ) limit ${most}`
  return rows.map((row) => row.account_id)
}

export interface Claimed {
  purchase_ref: string
  attempts: number
}

/** Takes purchases of each account for a while: where the taker dies, another takes them when that is over. */
export async function claimCarrying(
  sql: Sql,
  accountIds: string[],
  each: number,
  claimMs: number,
): Promise<Claimed[]> {
  return sql<Claimed[]>`
    update fulfilments f set carry_at = clock_timestamp() + ${claimMs}::int * interval '1 millisecond'
    where purchase_ref in (
      select c.purchase_ref from unnest(${accountIds}::text[]) as a (account_id) cross join lateral (
        select purchase_ref from fulfilments
        where account_id = a.account_id and carry_at <= clock_timestamp()
        order by carry_at limit ${each} for update skip locked
      ) c
    )
    returning purchase_ref, attempts`
}

export async function findWaitingEffects(sql: Sql, purchaseRefs: string[]): Promise<EffectRow[]> {
  return sql<EffectRow[]>`
    select position, purchase_ref, account_id, application_id, kind, cause, at, ordered_at, plan_id, external_ref,
      ends_at, charged_back, refund_id
    from purchase_effects where purchase_ref = any(${purchaseRefs}) and state = 'waiting'
    order by purchase_ref, position`
}

/** Locks purchases in their order, before anything of them is written. */
export async function lockFulfilments(tx: Transaction, purchaseRefs: string[]): Promise<void> {
  await tx`
    select purchase_ref from fulfilments where purchase_ref = any(${purchaseRefs}) order by purchase_ref for update`
}

export async function finishEffects(tx: Transaction, positions: bigint[]): Promise<void> {
  await tx`
    update purchase_effects set state = 'done', done_at = clock_timestamp()
    where position = any(${positions.map(String)}::bigint[])`
}

export interface LostRenewal {
  purchase_ref: string
  account_id: string
  application_id: string
  cause: string
}

/** Renewals that were carried out before it was known that the purchase had been given back earlier. */
export async function findOvertakenRenewals(tx: Transaction, givenBack: bigint): Promise<LostRenewal[]> {
  return tx<LostRenewal[]>`
    select r.purchase_ref, r.account_id, r.application_id, r.cause
    from purchase_effects g join purchase_effects r on r.purchase_ref = g.purchase_ref
    where g.position = ${givenBack}
      and r.kind = 'renewed' and r.state = 'done' and r.position < g.position and r.at > g.at
      and not exists (
        select 1 from purchase_effects first
        where first.purchase_ref = g.purchase_ref and first.kind = 'given_back' and first.state = 'done'
          and first.position < g.position
      )`
}

/** Nothing more of these purchases is carried out until they are replayed. */
export async function refuseEffects(tx: Transaction, purchaseRefs: string[]): Promise<void> {
  await tx`
    update purchase_effects set state = 'refused'
    where purchase_ref = any(${purchaseRefs}) and state = 'waiting'`
}

/** What was refused is tried once more, by the caller. @returns false where nothing was */
export async function retryRefused(tx: Transaction, purchaseRef: string, claimMs: number): Promise<boolean> {
  const retried = await tx`
    update purchase_effects set state = 'waiting' where purchase_ref = ${purchaseRef} and state = 'refused'`
  if (retried.count === 0) return false
  await takeFulfilment(tx, purchaseRef, claimMs)
  return true
}

/** The caller itself carries out what waits of the purchase. */
export async function takeFulfilment(sql: Sql, purchaseRef: string, claimMs: number): Promise<void> {
  await sql`
    update fulfilments set carry_at = clock_timestamp() + ${claimMs}::int * interval '1 millisecond'
    where purchase_ref = ${purchaseRef}`
}

/** When each is tried again: not at all where nothing waits, later where it failed, else at once. */
export async function writeCarried(
  tx: Transaction,
  carried: { purchaseRef: string; failures: number; delayMs: number }[],
): Promise<void> {
  await tx`
    update fulfilments f set attempts = c.failures,
      carry_at = case when exists (
        select 1 from purchase_effects e where e.purchase_ref = f.purchase_ref and e.state = 'waiting'
      ) then clock_timestamp() + c.delay_ms * interval '1 millisecond' end
    from unnest(${carried.map((each) => each.purchaseRef)}::text[],
      ${carried.map((each) => each.failures)}::int[], ${carried.map((each) => each.delayMs)}::int[])
      as c (purchase_ref, failures, delay_ms)
    where f.purchase_ref = c.purchase_ref`
}

export interface ProvisionedSession {
  id: string
  account_id: string
  application_id: string
  licence_id: string
  amount: bigint
  currency: string
}

/** @returns those that had not been provisioned before, with what was paid */
export async function markSessionsProvisioned(
  tx: Transaction,
  licences: { purchaseRef: string; licenceId: string }[],
): Promise<ProvisionedSession[]> {
  const refs = licences.map((each) => each.purchaseRef)
  const ids = licences.map((each) => each.licenceId)
  const provisioned = await tx<ProvisionedSession[]>`
    update checkout_sessions s set status = 'provisioned', licence_id = l.licence_id, failure_reason = null,
      provisioned_at = clock_timestamp()
    from unnest(${refs}::text[], ${ids}::text[]) as l (id, licence_id)
    where s.id = l.id and s.status <> 'provisioned'
    returning s.id, s.account_id, s.application_id, s.licence_id,
      coalesce(s.paid_amount, s.amount) as amount, coalesce(nullif(s.paid_currency, ''), s.currency) as currency`
  await tx`
    update payments p set licence_id = l.licence_id
    from unnest(${refs}::text[], ${ids}::text[]) as l (id, licence_id)
    where p.session_id = l.id and p.licence_id is null`
  return provisioned
}

export async function markSalesProvisioned(
  tx: Transaction,
  licences: { purchaseRef: string; licenceId: string }[],
): Promise<void> {
  const refs = licences.map((each) => each.purchaseRef)
  const ids = licences.map((each) => each.licenceId)
  await tx`
    update sale_events s set status = 'provisioned', licence_id = l.licence_id, failure_reason = null,
      provisioned_at = clock_timestamp()
    from unnest(${refs}::text[], ${ids}::text[]) as l (id, licence_id)
    where s.id = l.id and s.status <> 'provisioned'`
  await tx`
    update payments p set licence_id = l.licence_id
    from unnest(${refs}::text[], ${ids}::text[]) as l (id, licence_id)
    where p.source_key = 'sale:' || l.id and p.licence_id is null`
}

export interface UnprovisionedPurchase {
  purchase_ref: string
  account_id: string
  application_id: string
  plan_id: string
  amount: bigint
  currency: string
}

/** @returns those that had not failed before */
export async function markProvisionFailed(
  tx: Transaction,
  refused: { purchaseRef: string; reason: string }[],
): Promise<UnprovisionedPurchase[]> {
  const refs = refused.map((each) => each.purchaseRef)
  const reasons = refused.map((each) => each.reason)
  return tx<UnprovisionedPurchase[]>`
    update checkout_sessions s set status = 'provision_failed', failure_reason = r.reason
    from unnest(${refs}::text[], ${reasons}::text[]) as r (id, reason)
    where s.id = r.id and s.status not in ('provisioned', 'provision_failed')
    returning s.id as purchase_ref, s.account_id, s.application_id, s.plan_id,
      coalesce(s.paid_amount, s.amount) as amount, coalesce(nullif(s.paid_currency, ''), s.currency) as currency`
}

export interface ProcessedRefund {
  id: string
  amount: bigint
  lane: RefundLane
  charge_ref: string
  account_id: string
  application_id: string
  licence_id: string | null
}

/** @returns those that had not been processed before */
export async function markRefundsProcessed(tx: Transaction, ids: string[]): Promise<ProcessedRefund[]> {
  return tx<ProcessedRefund[]>`
    update refunds r set processed = true
    from payments p
    where r.id = any(${ids}) and not r.processed and p.id = r.payment_id
    returning r.id, r.amount, r.lane, r.account_id, r.application_id, p.licence_id,
      coalesce(p.charge_ref, p.payment_ref, p.id) as charge_ref`
}
