import type { Sql, Transaction } from '@licensing/database/connect'
import type { DisputeFact } from '../processors/facts.ts'
import { learnCharge } from './charge-facts.ts'
import type { Subject } from './subjects.ts'

export interface DisputeRow {
  dispute_ref: string
  payment_ref: string
  amount: bigint
  currency: string
  opened_at: Date
  status: DisputeFact['status']
  inquiry: boolean
  inquiry_closed: boolean
  inquiry_closed_at: Date | null
  chargeback: boolean
  chargeback_at: Date | null
  suspended: boolean
  resumed: boolean
  /** Whether it is time to act on it. */
  ripe: boolean
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
  const toldAt = fact.toldAt ?? null
  const closed = fact.stage === 'inquiry_closed'
  const chargeback = fact.stage === 'chargeback'
  const inquiry = fact.stage !== 'chargeback' || fact.wasInquiry
  await tx`
    insert into dispute_facts as d (merchant, dispute_ref, payment_ref, charge_ref, amount, currency, opened_at,
      status, opening_told, inquiry, inquiry_closed, inquiry_closed_at, chargeback, chargeback_at, ripe_at)
    values (${merchant}, ${disputeRef}, ${paymentRef}, ${chargeRef ?? null}, ${fact.amount}, ${fact.currency},
      ${fact.openedAt}, ${fact.status}, ${fact.opening}, ${inquiry}, ${closed}, ${closed ? toldAt : null},
      ${chargeback}, ${chargeback ? toldAt : null}, ${ripeAt})
    on conflict (merchant, dispute_ref) do update set
      status = case when d.status = 'open' then excluded.status else d.status end,
      inquiry = d.inquiry or excluded.inquiry,
      inquiry_closed = d.inquiry_closed or excluded.inquiry_closed,
      inquiry_closed_at = least(d.inquiry_closed_at, excluded.inquiry_closed_at),
      chargeback = d.chargeback or excluded.chargeback,
      chargeback_at = least(d.chargeback_at, excluded.chargeback_at),
      opening_told = d.opening_told or excluded.opening_told`
  return { paymentRef }
}

export async function findDisputes(sql: Sql, merchant: string, paymentRefs: string[]): Promise<DisputeRow[]> {
  return sql<DisputeRow[]>`
    select dispute_ref, payment_ref, amount, currency, opened_at, status, inquiry, inquiry_closed,
      inquiry_closed_at, chargeback, chargeback_at, suspended, resumed,
      ripe_at <= clock_timestamp() as ripe
    from dispute_facts
    where merchant = ${merchant} and payment_ref = any(${paymentRefs})
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
