/** How many partitions a log has at first. An account's events are all in one, which one consumer at a time reads. */
export const firstPartitions = 8

/** The partitions of a replica that died are free after this time. */
export const leaseMs = 6_000

/** Replicas renew their partitions, and share them, this often. */
export const renewMs = 2_500

/**
 * Consumers ask for the newest numbers this often while events arrive. An event whose message was lost arrives after twice this
 * time. After a quiet time they ask every `maxIdleMs`.
 */
export const pollMs = 2_000

/** For this long a consumer does not warn that NATS or a producer is unavailable: they may start later. */
export const startMs = 10_000

/** Decides the partition of an account's events (FNV-1a). It is the remainder of a division by the number of partitions. */
export function hashOf(accountId: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < accountId.length; at += 1) {
    hash = Math.imul(hash ^ accountId.charCodeAt(at), 0x01000193)
  }
  return hash >>> 0
}

export function partitionOf(accountId: string, count = firstPartitions): number {
  return hashOf(accountId) % count
}
