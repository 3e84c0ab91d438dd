import type { Sql } from '@licensing/database/connect'
import type { Subject } from './record-fact.ts'

/** The sessions that a fact concerns. A payment of somebody else's on the same merchant concerns none. */
export async function sessionsOf(sql: Sql, merchant: string, subject: Subject): Promise<string[]> {
  if (subject.sessionId !== undefined) return [subject.sessionId]
  const { paymentRef = null, subscriptionRef = null } = subject
  const rows = await sql<{ id: string }[]>`
    select id from checkout_sessions where merchant = ${merchant} and payment_ref = ${paymentRef}
    union
    select session_id from payments
    where merchant = ${merchant} and payment_ref = ${paymentRef} and session_id is not null
    union
    select s.id from checkout_sessions s join invoice_facts i
      on i.merchant = s.merchant and i.subscription_ref = s.subscription_ref
    where i.merchant = ${merchant} and i.payment_ref = ${paymentRef}
    union
    select id from checkout_sessions where merchant = ${merchant} and subscription_ref = ${subscriptionRef}`
  return rows.map((row) => row.id)
}

/** The facts of a payment need not wait any longer: the processor's own records have been compared. */
export async function ripen(sql: Sql, merchant: string, paymentRef: string): Promise<void> {
  await sql`
    update refund_facts set ripe_at = now()
    where merchant = ${merchant} and payment_ref = ${paymentRef} and ripe_at > now()`
  await sql`
    update dispute_facts set ripe_at = now()
    where merchant = ${merchant} and payment_ref = ${paymentRef} and ripe_at > now()`
}

/** When the next fact of a session's story becomes ripe. */
export async function nextRipe(
  sql: Sql,
  merchant: string,
  paymentRefs: string[],
  subscriptionRef: string | null,
): Promise<Date | undefined> {
  const [row] = await sql<{ at: Date | null }[]>`
    select min(ripe_at) as at from (
      select ripe_at from refund_facts where merchant = ${merchant} and payment_ref = any(${paymentRefs})
      union all
      select ripe_at from dispute_facts where merchant = ${merchant} and payment_ref = any(${paymentRefs})
      union all
      select ripe_at from subscription_ends
      where merchant = ${merchant} and subscription_ref = ${subscriptionRef}
    ) fact
    where ripe_at > clock_timestamp()`
  return row?.at ?? undefined
}
