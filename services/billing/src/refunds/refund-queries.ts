import type { Sql } from '@licensing/database/connect'
import type { PageRequest } from '@licensing/database/page'
import { rowsFor } from '@licensing/database/page'
import type { DisputeStatus, RefundLane, RefundStatus } from '@licensing/proto/closed-sets'

export interface RefundRow {
  id: string
  payment_id: string
  ref: string
  amount: bigint
  currency: string
  lane: RefundLane
  /** Of the refund or, in the lane `chargeback`, of the dispute. */
  status: RefundStatus | DisputeStatus
  occurred_at: Date
  processed: boolean
  alerted: boolean
}

export interface NewRefund extends Omit<RefundRow, 'alerted'> {
  account_id: string
  application_id: string
  merchant: string
}

/** Records a refund, or what has become of it. A processed one keeps its lane. */
export async function putRefund(sql: Sql, refund: NewRefund): Promise<void> {
  await sql`
    insert into refunds as r (id, account_id, application_id, payment_id, merchant, ref, amount, currency, lane,
      status, occurred_at, processed)
    values (${refund.id}, ${refund.account_id}, ${refund.application_id}, ${refund.payment_id}, ${refund.merchant},
      ${refund.ref}, ${refund.amount}, ${refund.currency}, ${refund.lane}, ${refund.status}, ${refund.occurred_at},
      ${refund.processed})
    on conflict (payment_id, ref) do update set status = excluded.status,
      lane = case when r.processed then r.lane else excluded.lane end,
      processed = r.processed or excluded.processed`
}

export async function findRefundsOfSession(sql: Sql, sessionId: string): Promise<RefundRow[]> {
  return sql<RefundRow[]>`
    select r.id, r.payment_id, r.ref, r.amount, r.currency, r.lane, r.status, r.occurred_at, r.processed, r.alerted
    from refunds r join payments p on p.id = r.payment_id
    where p.session_id = ${sessionId}`
}

export async function markAlerted(sql: Sql, paymentId: string, ref: string): Promise<void> {
  await sql`update refunds set alerted = true where payment_id = ${paymentId} and ref = ${ref}`
}

export type ListedRefund = Omit<RefundRow, 'payment_id' | 'ref' | 'processed' | 'alerted'> & {
  charge_ref: string
  licence_id: string | null
}

export async function listRefundRows(
  sql: Sql,
  { accountId, applicationId }: { accountId: string; applicationId: string },
  page: PageRequest,
): Promise<ListedRefund[]> {
  return sql<ListedRefund[]>`
    select r.id, r.amount, r.currency, r.lane, r.status, r.occurred_at, p.licence_id,
      coalesce(p.charge_ref, p.payment_ref, p.id) as charge_ref
    from refunds r join payments p on p.id = r.payment_id
    where r.application_id = ${applicationId} and r.account_id = ${accountId}
      ${page.beforeId === '' ? sql`` : sql`and r.id < ${page.beforeId}`}
    order by r.id desc limit ${rowsFor(page.limit)}`
}
