/** How long a delivery is held: an attempt of 5 s, the writing of its result, and some time in the queue before. */
export const leaseMs = 12_000

/** An attempt starts only while so much of the lease is left. */
export const leaseMarginMs = 7_000
