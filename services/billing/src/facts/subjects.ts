import type { Sql } from '@licensing/database/connect'

/** Where a fact belongs: the payment or the subscription that it tells of, or the session itself. */
export interface Subject {
  sessionId?: string
  paymentRef?: string
  subscriptionRef?: string
}

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
