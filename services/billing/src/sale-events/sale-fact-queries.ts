import type { Sql, Transaction } from '@licensing/database/connect'
import { insertRows, rowsOf } from '@licensing/database/row-queries'
import type { SaleFactKind } from '@licensing/proto/closed-sets'
import type { SaleName, SaleRow } from './sale-event-queries.ts'

/** A fact about a sale, as its shop reported it. */
export interface SaleFactRow {
  application_id: string
  sale_id: string
  kind: SaleFactKind
  /** The shop's id; empty for a cancellation. */
  fact_id: string
  body_hash: Buffer
  occurred_at: Date
  amount: bigint | null
  currency: string | null
  /** The renewal whose payment a refund or chargeback concerns; null: the sale's own payment. */
  renewal_id: string | null
  /** The end that a renewal or a cancellation gives. */
  ends_on: Date | null
  recorded_at: Date
}

export type NewSaleFact = Omit<SaleFactRow, 'recorded_at'> & { account_id: string; is_waiting: boolean }

const columns = (sql: Sql) => sql`
  f.application_id, f.sale_id, f.kind, f.fact_id, f.body_hash, f.occurred_at, f.amount, f.currency, f.renewal_id, f.ends_on,
  f.recorded_at`

/** Serializes the reports about a sale with each other and with that of the sale itself, which may come later. */
export async function lockSaleName(tx: Transaction, { applicationId, saleId }: SaleName): Promise<void> {
  await tx`select pg_advisory_xact_lock(hashtextextended(${`${applicationId} ${saleId}`}, 0))`
}

export async function findSaleFacts(sql: Sql, sale: SaleName): Promise<SaleFactRow[]> {
  return sql<SaleFactRow[]>`
    select ${columns(sql)} from sale_facts f
    where application_id = ${sale.applicationId} and sale_id = ${sale.saleId} and account_id = ${sale.accountId}`
}

export async function findFactsOfSales(sql: Sql, sales: SaleRow[]): Promise<SaleFactRow[]> {
  if (sales.length === 0) return []
  const names = sales.map(({ account_id, application_id, sale_id }) => ({
    account_id,
    application_id,
    sale_id,
  }))
  return sql<SaleFactRow[]>`
    select ${columns(sql)} from ${rowsOf(sql, 'sale_facts', names)} s
    join sale_facts f on f.application_id = s.application_id and f.sale_id = s.sale_id and f.account_id = s.account_id`
}

export async function insertSaleFact(tx: Transaction, fact: NewSaleFact): Promise<void> {
  await insertRows(tx, 'sale_facts', [fact])
}

/** @returns how many it deleted */
export async function purgeWaitingSaleFacts(sql: Sql, keptMs: number, limit: number): Promise<number> {
  const purged = await sql`
    delete from sale_facts where position in (
      select position from sale_facts
      where is_waiting and recorded_at < clock_timestamp() - ${keptMs}::float8 * interval '1 millisecond'
      order by recorded_at limit ${limit} for update skip locked
    )`
  return purged.count
}
