/** How long payloads are kept (docs/guides/webhooks.md, "Recover missed events"). The record of a delivery is kept permanently. */
export const payloadDays = 90

const dayMs = 86_400_000

export const payloadMs = payloadDays * dayMs

/** Events recorded before this time are past retention, even if their partition is not dropped yet. */
export function keptSince(now: Date, retentionMs = payloadMs): Date {
  return new Date(now.getTime() - retentionMs)
}
