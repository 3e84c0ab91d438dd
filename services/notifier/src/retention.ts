const dayMs = 86_400_000

/**
 * How long payloads are kept unless the operator sets another time (docs/guides/webhooks.md, "Recover missed events"). The record
 * of a delivery is kept permanently, or for WEBHOOK_DELIVERY_RETENTION_DAYS.
 */
export const payloadMs = 90 * dayMs

/** Events recorded before this time are past retention, even if their partition is not dropped yet. */
export function keptSince(now: Date, retentionMs: number): Date {
  return new Date(now.getTime() - retentionMs)
}
