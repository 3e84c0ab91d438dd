import type { Sql, Transaction } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'
import type { RefundKind } from '@licensing/proto/closed-sets'
import { refundedCharge } from '../refunds/refund-queries.ts'
import { isSale } from './effect.ts'

/** A purchase as it was made: a checkout session or a sale event. */
export interface PurchaseRow {
  id: string
  account_id: string
  application_id: string
  plan_id: string
  licence_id: string | null
  failure_reason: string | null
  amount: bigint
  currency: string
}

type Table = 'checkout_sessions' | 'sale_events'

/** Updates the rows of these purchases in the table of each. */
async function inTables<Row extends { id: string }>(
  rows: Row[],
  update: (table: Table, own: Row[]) => Promise<PurchaseRow[]>,
): Promise<PurchaseRow[]> {
  const byTable = Map.groupBy(rows, ({ id }): Table => (isSale(id) ? 'sale_events' : 'checkout_sessions'))
  const updated: PurchaseRow[] = []
  for (const [table, own] of byTable) updated.push(...(await update(table, own)))
  return updated
}

/** The columns of a purchase `s`. A session has the amount that was paid, if it is known. */
const columns = (sql: Sql, table: Table) => sql`
  s.id, s.account_id, s.application_id, s.plan_id, s.licence_id, s.failure_reason, ${
    table === 'sale_events'
      ? sql`s.amount, s.currency`
      : sql`coalesce(s.paid_amount, s.amount) as amount, coalesce(s.paid_currency, s.currency) as currency`
  }`

/** @returns the purchases that had not been provisioned before */
export async function provision(
  tx: Transaction,
  licences: { id: string; licence_id: string }[],
): Promise<PurchaseRow[]> {
  return inTables(licences, async (table, own) => {
    const rows = rowsOf(tx, table, own)
    const provisioned = await tx<PurchaseRow[]>`
      update ${tx(table)} s set status = 'provisioned', licence_id = l.licence_id, failure_reason = null
      from ${rows} l where s.id = l.id and s.status <> 'provisioned' returning ${columns(tx, table)}`
    // If licensing lost the licence, it has created another one.
    await tx`
      update ${tx(table)} s set licence_id = l.licence_id from ${rows} l
      where s.id = l.id and s.licence_id <> l.licence_id`
    await tx`
      update payments p set licence_id = l.licence_id from ${rows} l
      where p.purchase_ref = l.id and p.licence_id is distinct from l.licence_id`
    if (table === 'sale_events') await endWaiting(tx, provisioned)
    return provisioned
  })
}

/** Facts that waited for their sale are decided. */
async function endWaiting(tx: Transaction, sales: PurchaseRow[]): Promise<void> {
  if (sales.length === 0) return
  await tx`
    with ended as (
      update sale_facts f set is_waiting = false from sale_events s
      where s.id = any(${sales.map(({ id }) => id)}) and f.application_id = s.application_id and f.sale_id = s.sale_id
        and f.account_id = s.account_id and f.is_waiting
      returning s.id
    )
    update purchases set decide_at = clock_timestamp() where purchase_ref in (select id from ended)`
}

/** @returns the purchases whose failure has not been reported before */
export async function failToProvision(
  tx: Transaction,
  refused: { id: string; failure_reason: string }[],
): Promise<PurchaseRow[]> {
  return inTables(refused, async (table, own) => {
    const rows = await tx<(PurchaseRow & { is_first: boolean })[]>`
      update ${tx(table)} s set status = 'provision_failed', failure_reason = r.failure_reason
      from ${rowsOf(tx, table, own)} r join ${tx(table)} before on before.id = r.id
      where s.id = r.id returning ${columns(tx, table)}, before.failure_reason is null as is_first`
    return rows.filter((row) => row.is_first)
  })
}

export interface ProcessedRefund {
  id: string
  amount: bigint
  kind: RefundKind
  charge_ref: string
  account_id: string
  application_id: string
  licence_id: string | null
}

/** @returns the refunds that had not been processed before */
export async function markRefundsProcessed(tx: Transaction, ids: string[]): Promise<ProcessedRefund[]> {
  return tx<ProcessedRefund[]>`
    update refunds r set processed = true
    from payments p
    where r.id = any(${ids}) and not r.processed and p.id = r.payment_id
    returning r.id, r.amount, r.kind, r.account_id, r.application_id, p.licence_id,
      ${refundedCharge(tx)} as charge_ref`
}
