import type { Sql } from '@licensing/database/connect'

/**
 * What comes out of order comes within moments. A refund or a dispute waits this long for what may have happened before
 * it, unless the processor's own records show that nothing is missing; and a payment's facts wait for one another.
 */
export const graceMs = 2_000

/**
 * The processor's own records of a payment have been stored: its facts need not wait any longer, unless the records
 * show what no event has told yet. They do not say how and when it came about: a refund that failed may have succeeded
 * before, a chargeback may have been an inquiry.
 */
export async function ripen(sql: Sql, merchant: string, paymentRef: string): Promise<void> {
  const [row] = await sql<{ unexplained: boolean }[]>`
    select exists (
      select 1 from refund_facts
      where merchant = ${merchant} and payment_ref = ${paymentRef} and not covered and not derived and (
        (succeeded and succeeded_at is null)
        or (status = 'failed' and (failed_at is null or not succeeded))
      )
    ) or exists (
      select 1 from dispute_facts
      where merchant = ${merchant} and payment_ref = ${paymentRef} and (
        not opening_told
        or (chargeback and chargeback_at is null)
        or (inquiry_closed and inquiry_closed_at is null)
      )
    ) as unexplained`
  if (row!.unexplained) return
  await sql`
    update refund_facts set ripe_at = clock_timestamp()
    where merchant = ${merchant} and payment_ref = ${paymentRef} and ripe_at > clock_timestamp()`
  await sql`
    update dispute_facts set ripe_at = clock_timestamp()
    where merchant = ${merchant} and payment_ref = ${paymentRef} and ripe_at > clock_timestamp()`
}

/** Those of these payments of which refunds or disputes were told that have not been acted on. */
export async function awaitingAction(sql: Sql, merchant: string, paymentRefs: string[]): Promise<string[]> {
  const rows = await sql<{ payment_ref: string }[]>`
    select payment_ref from refund_facts f
    where merchant = ${merchant} and payment_ref = any(${paymentRefs}) and not exists (
      select 1 from refunds r where r.merchant = f.merchant and r.ref = f.refund_ref and r.processed
    )
    union
    select payment_ref from dispute_facts f
    where merchant = ${merchant} and payment_ref = any(${paymentRefs}) and not exists (
      select 1 from refunds r where r.merchant = f.merchant and r.ref = f.dispute_ref and r.processed
    )`
  return rows.map((row) => row.payment_ref)
}

/** When all facts of a session's story will be ripe; undefined where they are. */
export async function nextRipe(
  sql: Sql,
  merchant: string,
  { paymentRefs, subscriptionRef }: { paymentRefs: string[]; subscriptionRef: string | null },
): Promise<Date | undefined> {
  const [row] = await sql<{ at: Date | null }[]>`
    select max(ripe_at) as at from (
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
