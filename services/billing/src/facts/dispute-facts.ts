import type { Sql, Transaction } from '@licensing/database/connect'
import type { DisputeFact } from '../processors/facts.ts'
import { learnCharge } from './charge-facts.ts'
import type { Subject } from './record-fact.ts'

export interface DisputeRow {
  dispute_ref: string
  payment_ref: string
  amount: bigint
  currency: string
  opened_at: Date
  status: DisputeFact['status']
  inquiry: boolean
  inquiry_closed_at: Date | null
  chargeback_at: Date | null
  suspended: boolean
  resumed: boolean
}

export async function recordDispute(
  tx: Transaction,
  merchant: string,
  fact: DisputeFact,
  ripeAt: Date,
): Promise<Subject> {
  const { chargeRef, disputeRef } = fact
  const paymentRef =
    chargeRef === undefined ? fact.paymentRef : await learnCharge(tx, merchant, chargeRef, fact.paymentRef)
  if (paymentRef === undefined) return {}
  const inquiry = fact.stage !== 'chargeback' || fact.wasInquiry
  await tx`
    insert into dispute_facts as d (merchant, dispute_ref, payment_ref, charge_ref, amount, currency, opened_at,
      status, status_at, inquiry, inquiry_closed_at, chargeback_at, ripe_at)
    values (${merchant}, ${disputeRef}, ${paymentRef}, ${chargeRef ?? null}, ${fact.amount}, ${fact.currency},
      ${fact.openedAt}, ${fact.status}, ${fact.at}, ${inquiry},
      ${fact.stage === 'inquiry_closed' ? fact.at : null}, ${fact.stage === 'chargeback' ? fact.at : null},
      ${ripeAt})
    on conflict (merchant, dispute_ref) do update set
      status = case when d.status = 'open' then excluded.status else d.status end,
      inquiry = d.inquiry or excluded.inquiry,
      inquiry_closed_at = least(d.inquiry_closed_at, excluded.inquiry_closed_at),
      chargeback_at = least(d.chargeback_at, excluded.chargeback_at),
      ripe_at = least(d.ripe_at, excluded.ripe_at)`
  return { paymentRef }
}

export async function findRipeDisputes(
  sql: Sql,
  merchant: string,
  paymentRefs: string[],
): Promise<DisputeRow[]> {
  return sql<DisputeRow[]>`
    select dispute_ref, payment_ref, amount, currency, opened_at, status, inquiry, inquiry_closed_at,
      chargeback_at, suspended, resumed
    from dispute_facts
    where merchant = ${merchant} and payment_ref = any(${paymentRefs}) and ripe_at <= clock_timestamp()
    order by opened_at, dispute_ref`
}

export async function markDispute(
  sql: Sql,
  merchant: string,
  disputeRef: string,
  change: { suspended: true } | { resumed: true },
): Promise<void> {
  await sql`
    update dispute_facts set ${sql(change)} where merchant = ${merchant} and dispute_ref = ${disputeRef}`
}
