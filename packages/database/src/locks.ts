/**
 * Ids of advisory locks. A test checks that no two are equal and that no other number is used. They never change, so that
 * replicas of two releases use the same locks.
 *
 * The lock of a row that may not exist yet uses a hash as its id: `hashtextextended(<id of the row>, 0)`.
 */
export const locks = {
  /** One replica at a time applies a migration. */
  migration: 7_162_001,
  /** One catalog at a time makes the demo account. */
  bootstrap: 7_162_101,
  /** One licensing at a time adds up what happened on a day. */
  applicationDays: 7_162_301,
  /** One billing at a time adds up the money of a day. */
  paymentDays: 7_162_401,
  /** One notifier at a time makes or drops partitions of events. */
  eventPartitions: 7_162_201,
  /** One notifier at a time updates the statistics. */
  statistics: 7_162_202,
} as const
