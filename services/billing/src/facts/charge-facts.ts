import type { Sql, Transaction } from '@licensing/database/connect'
import type { ChargeFact } from '../processors/facts.ts'
import type { Subject } from './subjects.ts'

export interface ChargeRow {
  charge_ref: string
  payment_ref: string | null
  amount: bigint | null
  charged_at: Date | null
  refunded: bigint
}

export async function recordCharge(tx: Transaction, merchant: string, fact: ChargeFact): Promise<Subject> {
  const paymentRef = await learnCharge(tx, merchant, fact.chargeRef, fact.paymentRef)
  if (fact.sessionId !== undefined) {
    await tx`
      update checkout_sessions set payment_ref = ${paymentRef}
      where id = ${fact.sessionId} and merchant = ${merchant} and mode = 'payment' and payment_ref is null`
  }
  await tx`
    update charge_facts set amount = ${fact.amount}, currency = ${fact.currency}, charged_at = ${fact.chargedAt},
      refunded = greatest(refunded, ${fact.refunded})
    where merchant = ${merchant} and charge_ref = ${fact.chargeRef}`
  return { paymentRef }
}

/**
 * Keeps which payment a charge is of. Facts that came before that was known stood under the charge's own id.
 *
 * @returns the payment, or the charge where it has none
 */
export async function learnCharge(
  tx: Transaction,
  merchant: string,
  chargeRef: string,
  paymentRef: string | undefined,
): Promise<string> {
  const [row] = await tx<{ payment_ref: string | null }[]>`
    insert into charge_facts as c (merchant, charge_ref, payment_ref)
    values (${merchant}, ${chargeRef}, ${paymentRef ?? null})
    on conflict (merchant, charge_ref) do update set payment_ref = coalesce(c.payment_ref, excluded.payment_ref)
    returning payment_ref`
  const known = row!.payment_ref
  if (known === null) return chargeRef
  await tx`
    update refund_facts set payment_ref = ${known} where merchant = ${merchant} and payment_ref = ${chargeRef}`
  await tx`
    update dispute_facts set payment_ref = ${known} where merchant = ${merchant} and payment_ref = ${chargeRef}`
  return known
}

/** The charges of payments, the succeeded one of each; one whose details are known goes before one without. */
export async function findCharges(
  sql: Sql,
  merchant: string,
  paymentRefs: string[],
): Promise<Map<string, ChargeRow>> {
  const rows = await sql<(ChargeRow & { subject: string })[]>`
    select charge_ref, payment_ref, amount, charged_at, refunded, coalesce(payment_ref, charge_ref) as subject
    from charge_facts
    where merchant = ${merchant} and (payment_ref = any(${paymentRefs}) or charge_ref = any(${paymentRefs}))
    order by charged_at nulls first, charge_ref`
  return new Map(rows.map((row) => [row.subject, row]))
}
