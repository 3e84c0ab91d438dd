import type { Sql } from '@licensing/database/connect'
import type { PageRequest } from '@licensing/database/page'
import { rowsFor } from '@licensing/database/page'

/** What is known of a payment's charge. */
export const chargeStates = ['none', 'pending', 'known', 'absent'] as const

export interface PaymentRow {
  id: string
  account_id: string
  application_id: string
  session_id: string | null
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
  charge_ref: string | null
  charged_at: Date | null
  charge_state: (typeof chargeStates)[number]
  period_end: Date | null
  renewed: boolean
}

export const paymentColumns = (sql: Sql) => sql`
  id, account_id, application_id, session_id, sale_id, invoice_ref, plan_id, external_ref, amount, currency,
  fee_minor, licence_id, paid_at, merchant, payment_ref, charge_ref, charged_at, charge_state, period_end, renewed`

/** @returns false where the same thing was recorded as paid before */
export async function insertPayment(
  sql: Sql,
  sourceKey: string,
  payment: Omit<PaymentRow, 'charge_ref' | 'charged_at' | 'renewed'>,
): Promise<boolean> {
  const inserted = await sql`
    insert into payments (id, account_id, application_id, source_key, session_id, sale_id, invoice_ref, plan_id,
      external_ref, amount, currency, fee_minor, licence_id, paid_at, merchant, payment_ref, charge_state, period_end)
    values (${payment.id}, ${payment.account_id}, ${payment.application_id}, ${sourceKey}, ${payment.session_id},
      ${payment.sale_id}, ${payment.invoice_ref}, ${payment.plan_id}, ${payment.external_ref}, ${payment.amount},
      ${payment.currency}, ${payment.fee_minor}, ${payment.licence_id}, ${payment.paid_at}, ${payment.merchant},
      ${payment.payment_ref}, ${payment.charge_state}, ${payment.period_end})
    on conflict (source_key) do nothing`
  return inserted.count === 1
}

export async function listPaymentRows(
  sql: Sql,
  { accountId, applicationId }: { accountId: string; applicationId: string },
  page: PageRequest,
): Promise<PaymentRow[]> {
  return sql<PaymentRow[]>`
    select ${paymentColumns(sql)} from payments
    where application_id = ${applicationId} and account_id = ${accountId}
      ${page.beforeId === '' ? sql`` : sql`and id < ${page.beforeId}`}
    order by id desc limit ${rowsFor(page.limit)}`
}

export async function findPaymentsOfSession(sql: Sql, sessionId: string): Promise<PaymentRow[]> {
  return sql<PaymentRow[]>`
    select ${paymentColumns(sql)} from payments where session_id = ${sessionId} order by paid_at, id`
}

/** What became known of a payment, or was drawn from it. */
export async function writePayment(
  sql: Sql,
  paymentId: string,
  change: Partial<
    Pick<PaymentRow, 'payment_ref' | 'charge_ref' | 'charged_at' | 'charge_state' | 'renewed' | 'licence_id'>
  >,
): Promise<void> {
  await sql`update payments set ${sql(change)} where id = ${paymentId}`
}

/** The licence that a session's payments are for. */
export async function writeLicence(sql: Sql, sessionId: string, licenceId: string): Promise<void> {
  await sql`update payments set licence_id = ${licenceId} where session_id = ${sessionId}`
}

/** Charges of a session that cannot be found: their fees fall in the month in which they were told of. */
export async function giveUpCharges(sql: Sql, sessionId: string): Promise<void> {
  await sql`
    update payments set charge_state = 'absent' where session_id = ${sessionId} and charge_state = 'pending'`
}
