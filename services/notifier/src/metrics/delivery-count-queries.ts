import type { Sql } from '@licensing/database/connect'

export interface DeliveryCounts {
  at: Date
  delivered: bigint
  failed_attempts: bigint
  /** How many of the delivered are in each latency bucket, between commas: the driver is slow with long arrays. */
  latency_counts: string
}

/** Counts of the steps of an application that begin in a time, in order. */
export async function listDeliveryCounts(
  sql: Sql,
  of: { accountId: string; applicationId: string; step: string; from: Date; to: Date },
): Promise<DeliveryCounts[]> {
  return sql<DeliveryCounts[]>`
    select at, delivered, failed_attempts, array_to_string(latency_counts, ',') as latency_counts
    from delivery_counts
    where application_id = ${of.applicationId} and step = ${of.step} and at >= ${of.from} and at < ${of.to}
      and account_id = ${of.accountId}
    order by at`
}
