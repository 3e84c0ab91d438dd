import type { InboxEvent } from './inbox-queries.ts'

/** When to take an event up again; undefined: it is done. */
export type Again = Date | undefined

export function inMs(ms: number): Date {
  return new Date(Date.now() + ms)
}

export function earlier(one: Again, other: Again): Again {
  if (!one || !other) return one ?? other
  return one < other ? one : other
}

// A busy merchant's refunds are held no longer than this for what has not been looked at.
const longestHoldMs = 30_000

/** Whether there is time yet to let other events go first. */
export function isFresh(event: InboxEvent): boolean {
  return Date.now() - event.received_at.getTime() < longestHoldMs
}

/** How often the processor may fail to answer before a fee is charged, or a refund inferred, without it. */
export const mostSilences = 3
