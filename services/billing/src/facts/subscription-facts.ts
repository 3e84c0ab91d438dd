import type { Sql, Transaction } from '@licensing/database/connect'
import type { InvoiceFailedFact, InvoicePaidFact, SubscriptionEndedFact } from '../processors/facts.ts'
import type { Subject } from './subjects.ts'

export interface InvoiceRow {
  invoice_ref: string
  first: boolean
  amount: bigint
  currency: string
  period_end: Date | null
  paid_at: Date
  payment_ref: string | null
}

export interface FailureRow {
  invoice_ref: string
  attempt: number
  failed_at: Date
}

export async function recordPaidInvoice(
  tx: Transaction,
  merchant: string,
  fact: InvoicePaidFact,
): Promise<Subject> {
  await tx`
    insert into invoice_facts as i (merchant, invoice_ref, subscription_ref, first, amount, currency, period_end,
      paid_at)
    values (${merchant}, ${fact.invoiceRef}, ${fact.subscriptionRef}, ${fact.first}, ${fact.amount},
      ${fact.currency}, ${fact.periodEnd ?? null}, ${fact.paidAt})
    on conflict (merchant, invoice_ref) do update set first = i.first or excluded.first,
      period_end = greatest(i.period_end, excluded.period_end), paid_at = least(i.paid_at, excluded.paid_at)`
  return learnSubscription(tx, merchant, fact)
}

export async function recordFailedInvoice(
  tx: Transaction,
  merchant: string,
  fact: InvoiceFailedFact,
): Promise<Subject> {
  await tx`
    insert into invoice_failures as f (merchant, invoice_ref, attempt, subscription_ref, failed_at)
    values (${merchant}, ${fact.invoiceRef}, ${fact.attempt}, ${fact.subscriptionRef}, ${fact.at})
    on conflict (merchant, invoice_ref, attempt) do update set
      failed_at = least(f.failed_at, excluded.failed_at)`
  return learnSubscription(tx, merchant, fact)
}

export async function recordSubscriptionEnd(
  tx: Transaction,
  merchant: string,
  fact: SubscriptionEndedFact,
  ripeAt: Date,
): Promise<Subject> {
  await tx`
    insert into subscription_ends (merchant, subscription_ref, ended_at, ripe_at)
    values (${merchant}, ${fact.subscriptionRef}, ${fact.endedAt}, ${ripeAt})
    on conflict do nothing`
  return learnSubscription(tx, merchant, fact)
}

/** A subscription's story may be told before the checkout that began it. */
async function learnSubscription(
  tx: Transaction,
  merchant: string,
  { subscriptionRef, sessionId }: { subscriptionRef: string; sessionId: string | undefined },
): Promise<Subject> {
  if (sessionId !== undefined) {
    await tx`
      update checkout_sessions set subscription_ref = ${subscriptionRef}
      where id = ${sessionId} and merchant = ${merchant} and mode = 'subscription' and subscription_ref is null`
  }
  return { subscriptionRef }
}

export async function writeInvoicePayment(
  sql: Sql,
  merchant: string,
  invoiceRef: string,
  paymentRef: string,
): Promise<void> {
  await sql`
    update invoice_facts set payment_ref = ${paymentRef}
    where merchant = ${merchant} and invoice_ref = ${invoiceRef} and payment_ref is null`
}

export async function findInvoices(
  sql: Sql,
  merchant: string,
  subscriptionRef: string,
): Promise<InvoiceRow[]> {
  return sql<InvoiceRow[]>`
    select invoice_ref, first, amount, currency, period_end, paid_at, payment_ref from invoice_facts
    where merchant = ${merchant} and subscription_ref = ${subscriptionRef}
    order by paid_at, invoice_ref`
}

export async function findFailures(
  sql: Sql,
  merchant: string,
  subscriptionRef: string,
): Promise<FailureRow[]> {
  return sql<FailureRow[]>`
    select invoice_ref, attempt, failed_at from invoice_failures
    where merchant = ${merchant} and subscription_ref = ${subscriptionRef}
    order by failed_at, invoice_ref, attempt`
}

/** When a subscription ended, where it is time to act on it. */
export async function findRipeEnd(
  sql: Sql,
  merchant: string,
  subscriptionRef: string,
): Promise<Date | undefined> {
  const [row] = await sql<{ ended_at: Date }[]>`
    select ended_at from subscription_ends
    where merchant = ${merchant} and subscription_ref = ${subscriptionRef} and ripe_at <= clock_timestamp()`
  return row?.ended_at
}
