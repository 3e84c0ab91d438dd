// Exact below 20 ms. Above that, each bucket ends at 1.1 times its start, so that its middle differs from every latency in it
// by at most 5 %.
const exactMs = 20
const ratio = 1.1
const lastBucket = 255

/** The bucket of a latency in milliseconds. */
export function bucketOf(latencyMs: number): number {
  const ms = Math.max(0, Math.round(latencyMs))
  if (ms < exactMs) return ms
  return Math.min(lastBucket, exactMs + Math.floor(Math.log(ms / exactMs) / Math.log(ratio)))
}

/**
 * The latency in milliseconds that a share of the deliveries did not exceed; undefined if there are none.
 *
 * @param counts how many deliveries are in each bucket
 * @param share 0 to 1
 */
export function latencyWithin(counts: readonly number[], share: number): number | undefined {
  const total = counts.reduce((sum, count) => sum + count, 0)
  const rank = Math.max(1, Math.ceil(total * share))
  let seen = 0
  for (const [bucket, count] of counts.entries()) {
    seen += count
    if (seen >= rank) return middleOf(bucket)
  }
  return undefined
}

function middleOf(bucket: number): number {
  return bucket < exactMs ? bucket : Math.round(exactMs * ratio ** (bucket - exactMs + 0.5))
}
