import type { Sql } from '@licensing/database/connect'
import type { PageRequest } from '@licensing/database/page'
import { rowsFor } from '@licensing/database/page'
import { hasCharge } from '../payments/payment-queries.ts'
import type { SaleFilter } from '../payments/payment-queries.ts'
import { occurredIn } from '../period-queries.ts'
import type { DisputeStatus, RefundKind, RefundStatus } from '@licensing/proto/closed-sets'

export interface RefundRow {
  id: string
  payment_id: string
  ref: string
  /** The refunded charge, if it is known. */
  charge_ref: string | null
  amount: bigint
  currency: string
  kind: RefundKind
  /** Status of the refund; of the dispute if the kind is `chargeback`. */
  status: RefundStatus | DisputeStatus
  occurred_at: Date
  processed: boolean
  alerted: boolean
}

export async function findRefundsOf(
  sql: Sql,
  purchaseRefs: string[],
): Promise<(RefundRow & { purchase_ref: string })[]> {
  return sql<(RefundRow & { purchase_ref: string })[]>`
    select r.id, r.payment_id, r.ref, r.charge_ref, r.amount, r.currency, r.kind, r.status, r.occurred_at, r.processed,
      r.alerted, p.purchase_ref
    from payments p join refunds r on r.payment_id = p.id
    where p.purchase_ref = any(${purchaseRefs}) order by r.id`
}

/** Whether the payment of a session was refunded in full or charged back. */
export async function isRefundedInFull(sql: Sql, sessionId: string): Promise<boolean> {
  const [row] = await sql<{ returned: boolean }[]>`
    select exists (
      select 1 from payments p join refunds r on r.payment_id = p.id
      where p.purchase_ref = ${sessionId}
        and (r.kind = 'chargeback' or (r.kind = 'full_refund' and r.status = 'succeeded'))
    ) as returned`
  return row!.returned
}

/** The charge that lists and events name, of a refund `r` of a payment `p`. */
export const refundedCharge = (sql: Sql) =>
  sql`coalesce(r.charge_ref, p.charge_ref, p.sale_id, p.payment_ref, p.id)`

export type ListedRefund = Omit<RefundRow, 'payment_id' | 'ref' | 'charge_ref' | 'processed' | 'alerted'> & {
  charge_ref: string
  licence_id: string | null
}

export async function listRefundRows(
  sql: Sql,
  filter: SaleFilter,
  page: PageRequest,
): Promise<ListedRefund[]> {
  const { accountId, applicationId, licenceId, chargeRef } = filter
  const rows = rowsFor(page.limit)
  return occurredIn(
    sql,
    { prefix: 'rfd', id: sql`r.id`, time: sql`r.occurred_at` },
    filter,
    (within) => sql<ListedRefund[]>`
    select r.id, r.amount, r.currency, r.kind, r.status, r.occurred_at, p.licence_id,
      ${refundedCharge(sql)} as charge_ref
    from refunds r join payments p on p.id = r.payment_id
    where r.application_id = ${applicationId} and r.account_id = ${accountId} ${within}
      ${licenceId === undefined ? sql`` : sql`and p.licence_id = ${licenceId}`}
      ${
        chargeRef === undefined
          ? sql``
          : sql`and p.id in (
              select id from payments where application_id = ${applicationId} and ${hasCharge(sql, chargeRef)}
            ) and ${refundedCharge(sql)} = ${chargeRef}`
      }
      ${page.beforeId === '' ? sql`` : sql`and r.id < ${page.beforeId}`}
    order by r.id desc limit ${rows}`,
    rows,
  )
}
