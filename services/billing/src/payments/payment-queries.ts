import type { Sql, Statement } from '@licensing/database/connect'
import { rowsFor } from '@licensing/database/page'
import type { PageRequest } from '@licensing/database/page'
import type { SearchMatch } from '@licensing/proto/closed-sets'
import { occurredIn } from '../period-queries.ts'
import type { Period } from '../period-queries.ts'
import { insertRows } from '@licensing/database/row-queries'

/** Filters of the lists of payments and refunds. */
export interface SaleFilter extends Period {
  accountId: string
  applicationId: string
  licenceId?: string | undefined
  chargeRef?: string | undefined
}

/** Whether the charge of a payment is known. */
export const chargeStates = ['none', 'pending', 'known', 'absent'] as const

export interface PaymentRow {
  id: string
  account_id: string
  application_id: string
  /** The checkout session or the sale event. */
  purchase_ref: string
  /** The shop's id of the sale; null for a checkout session. */
  sale_id: string | null
  invoice_ref: string | null
  plan_id: string
  external_ref: string
  amount: bigint
  currency: string
  fee_minor: bigint
  licence_id: string | null
  paid_at: Date
  merchant: string | null
  payment_ref: string | null
  /** The first charge. */
  charge_ref: string | null
  /** The other charges of an invoice that was paid in parts. */
  other_charge_refs: string[]
  charged_at: Date | null
  charge_state: (typeof chargeStates)[number]
}

export const paymentColumns = (sql: Sql) => sql`
  id, account_id, application_id, purchase_ref, sale_id, invoice_ref, plan_id, external_ref, amount, currency,
  fee_minor, licence_id, paid_at, merchant, payment_ref, charge_ref, other_charge_refs, charged_at, charge_state`

/** Columns that are left out have their default. */
export type NewPayment = Partial<PaymentRow> & Pick<PaymentRow, 'id' | 'application_id' | 'paid_at'>

export async function insertPayment(sql: Sql, sourceKey: string, payment: NewPayment): Promise<void> {
  await insertRows(sql, 'payments', [{ ...payment, source_key: sourceKey }])
}

/** Whether a row `p` of payments has this charge. Each alternative uses an index. */
export function hasCharge(sql: Sql, chargeRef: string): Statement {
  return sql`(
    coalesce(charge_ref, sale_id, payment_ref, id) = ${chargeRef}
    or (other_charge_refs <> '{}' and other_charge_refs @> array[${chargeRef}])
  )`
}

export async function listPaymentRows(
  sql: Sql,
  filter: SaleFilter,
  page: PageRequest,
): Promise<PaymentRow[]> {
  const { accountId, applicationId, licenceId, chargeRef } = filter
  const rows = rowsFor(page.limit)
  return occurredIn(
    sql,
    { prefix: 'pay', id: sql`id`, time: sql`coalesce(charged_at, paid_at)` },
    filter,
    (within) => sql<PaymentRow[]>`
      select ${paymentColumns(sql)} from payments
      where application_id = ${applicationId} and account_id = ${accountId} ${within}
        ${licenceId === undefined ? sql`` : sql`and licence_id = ${licenceId}`}
        ${chargeRef === undefined ? sql`` : sql`and ${hasCharge(sql, chargeRef)} and charge_ref is not null`}
        ${page.beforeId === '' ? sql`` : sql`and id < ${page.beforeId}`}
      order by id desc limit ${rows}`,
    rows,
  )
}

export async function findPaymentsOf(sql: Sql, purchaseRefs: string[]): Promise<PaymentRow[]> {
  return sql<PaymentRow[]>`
    select ${paymentColumns(sql)} from payments where purchase_ref = any(${purchaseRefs}) order by paid_at, id`
}

export interface SaleMatch {
  licence_id: string
  matched: SearchMatch
}

/** The newest licences with this charge, checkout session or sale. */
export async function findLicencesOf(
  sql: Sql,
  of: { accountId: string; applicationId: string; query: string },
  limit: number,
): Promise<SaleMatch[]> {
  const { accountId, applicationId, query } = of
  const own = sql`application_id = ${applicationId} and account_id = ${accountId} and licence_id is not null`
  return sql<SaleMatch[]>`
    (select licence_id, 'charge_ref' as matched from payments
    where ${own} and ${hasCharge(sql, query)} and (charge_ref is not null or sale_id is null)
    order by id desc limit ${limit})
    union all
    select licence_id, 'session_id' from checkout_sessions where id = ${query} and ${own}
    union all
    select licence_id, 'sale_id' from sale_events where sale_id = ${query} and ${own}
    union all
    select licence_id, 'sale_id' from sale_events where id = ${query} and ${own}`
}
