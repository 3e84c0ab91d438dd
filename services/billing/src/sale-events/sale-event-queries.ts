import type { Sql, Transaction } from '@licensing/database/connect'
import { rowsFor } from '@licensing/database/page'
import type { PageRequest } from '@licensing/database/page'
import type { SaleStatus } from '@licensing/proto/closed-sets'
import { insertRows } from '@licensing/database/row-queries'
import type { Metadata } from '@licensing/proto/metadata'
import { isSale } from '../effects/effect.ts'
import { occurredIn } from '../period-queries.ts'
import type { Period } from '../period-queries.ts'

export interface SaleRow {
  id: string
  account_id: string
  application_id: string
  sale_id: string
  body_hash: Buffer
  external_ref: string
  plan_id: string
  amount: bigint
  currency: string
  occurred_at: Date
  expires_on: Date | null
  updates_until: Date | null
  /** How many months of updates each renewal includes; null if it does not change that. */
  updates_months: number | null
  metadata: Metadata
  status: SaleStatus
  licence_id: string | null
  failure_reason: string | null
  created_at: Date
}

export type NewSale = Omit<SaleRow, 'licence_id' | 'status' | 'failure_reason' | 'created_at'>

const columns = (sql: Sql) => sql`
  id, account_id, application_id, sale_id, body_hash, external_ref, plan_id, amount, currency, occurred_at,
  expires_on, updates_until, updates_months, metadata, status, licence_id, failure_reason, created_at`

/**
 * Inserts a sale. If another call is inserting the same sale, it waits for that.
 *
 * @returns false if the sale was recorded before
 */
export async function insertSale(tx: Transaction, sale: NewSale): Promise<boolean> {
  const row = { ...sale, status: 'provision_failed' }
  const ifNew = tx`on conflict (application_id, sale_id) do nothing`
  return (await insertRows(tx, 'sale_events', [row], ifNew)) === 1
}

/** The shop's name of a sale. */
export interface SaleName {
  accountId: string
  applicationId: string
  saleId: string
}

export async function findSale(
  sql: Sql,
  { accountId, applicationId, saleId }: SaleName,
): Promise<SaleRow | undefined> {
  const [row] = await sql<SaleRow[]>`
    select ${columns(sql)} from sale_events
    where application_id = ${applicationId} and sale_id = ${saleId} and account_id = ${accountId}`
  return row
}

export async function findSalesById(sql: Sql, ids: string[]): Promise<SaleRow[]> {
  const sales = ids.filter(isSale)
  if (sales.length === 0) return []
  return sql<SaleRow[]>`select ${columns(sql)} from sale_events where id = any(${sales}) order by id`
}

interface SaleEventFilter extends Period {
  accountId: string
  applicationId: string
  status?: string | undefined
}

/** A page of sale events in order of creation, newest first. */
export async function listSaleRows(sql: Sql, filter: SaleEventFilter, page: PageRequest): Promise<SaleRow[]> {
  const { accountId, applicationId, status } = filter
  const rows = rowsFor(page.limit)
  return occurredIn(
    sql,
    { prefix: 'sale', id: sql`id`, time: sql`occurred_at` },
    filter,
    (within) => sql<SaleRow[]>`
      select ${columns(sql)} from sale_events
      where application_id = ${applicationId} and account_id = ${accountId} ${within}
        ${status === undefined ? sql`` : sql`and status = ${status}`}
        ${page.beforeId === '' ? sql`` : sql`and id < ${page.beforeId}`}
      order by id desc limit ${rows}`,
    rows,
  )
}
