/** A replica that died gives its partitions up after this long. */
export const leaseMs = 6_000
