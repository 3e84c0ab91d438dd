/**
 * Ids of advisory locks. A test checks that no two are equal and that no other number is used. They never change, so that
 * replicas of two releases use the same locks.
 *
 * The lock of a row that may not exist yet uses a hash as its id: `hashtextextended(<id of the row>, 0)`.
 */
export const locks = {
  /** Only one replica at a time applies a migration. */
  migration: 7_162_001,
  /** One call at a time adds or removes the fences of accounts that move to another cell. */
  fences: 7_162_002,
  /** Only one replica of catalog at a time creates the demo account. */
  bootstrap: 7_162_101,
  /** Only one replica of licensing at a time adds up the changes of a day. */
  applicationDays: 7_162_301,
  /** Only one replica of billing at a time adds up the payments of a day. */
  paymentDays: 7_162_401,
  /** Shared while billing records answers of licensing, exclusive while it takes note of a new epoch of licensing. */
  licensingEpoch: 7_162_402,
  /** Only one replica of the notifier at a time creates or drops partitions of events. */
  eventPartitions: 7_162_201,
  /** Only one replica of the notifier at a time updates the statistics. */
  statistics: 7_162_202,
} as const
