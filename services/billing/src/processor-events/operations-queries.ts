import type { Sql } from '@licensing/database/connect'

export interface UnhandledEvent {
  event_id: string
  merchant: string
  type: string
  received_at: Date
  attempts: number
  parked: boolean
  last_error: string | null
}

/** Those that are parked or have failed before. */
export async function listUnhandledEvents(sql: Sql, most: number): Promise<UnhandledEvent[]> {
  return sql<UnhandledEvent[]>`
    select event_id, merchant, type, received_at, attempts, parked, last_error from processor_events
    where handled_at is null and (parked or attempts > 0)
    order by position limit ${most}`
}

/** @returns false where there is no such event that is not handled */
export async function retryEvent(sql: Sql, eventId: string): Promise<boolean> {
  const retried = await sql`
    update processor_events set parked = false, due_at = clock_timestamp()
    where event_id = ${eventId} and handled_at is null`
  return retried.count > 0
}

/** @returns false where there is no such event that is not handled */
export async function discardEvent(sql: Sql, eventId: string): Promise<boolean> {
  const discarded = await sql`
    update processor_events set parked = false, handled_at = clock_timestamp(), body = null,
      last_error = 'discarded by an operator'
    where event_id = ${eventId} and handled_at is null`
  return discarded.count > 0
}
