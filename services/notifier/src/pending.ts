import type { DeliveryStatus } from '@licensing/proto/closed-sets'

/** Whether the retry schedule may still attempt a delivery with this status. Every list of such statuses is derived from this table. */
const isPending: Record<DeliveryStatus, boolean> = { pending: true, delivered: false, failed: false }

export const pendingStatuses = (Object.keys(isPending) as DeliveryStatus[]).filter(
  (status) => isPending[status],
)

/** These statuses in SQL: literals, because the condition of an index has them. */
export const inPending = `in (${pendingStatuses.map((status) => `'${status}'`).join(', ')})`
