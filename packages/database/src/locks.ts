/**
 * Ids of advisory locks, each of them one number for the whole database of a service. A test sees to it that no two are
 * equal and that no other number is used. They never change: replicas of two releases lock each other out.
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
  /** One notifier at a time adds tallies to counts. */
  tallies: 7_162_202,
} as const
