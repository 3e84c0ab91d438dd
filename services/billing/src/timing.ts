const second = 1_000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

/** All waits and pauses between an event and its effect, in milliseconds. */
export const timing = {
  /** Events may arrive out of order: a refund, a dispute or an end waits this long for events of earlier times. */
  othersArrive: 2 * second,
  /** A refund, a dispute or an end waits at most this long for the answer that lists the newest events. */
  lookAtEvents: 3 * second,
  /** The processor is asked for a charge, an invoice or a subscription if no event reports it within this time. */
  eventBeforeQuestion: 100,
  /** After this time a paid purchase is sent although the time of its charge, which orders purchases, is not known. */
  chargeBeforePaid: second,
  /** Pauses between retries: the first, doubled up to the longest. */
  retryEvent: { firstMs: 250, maxMs: minute },
  retryDecision: { firstMs: 250, maxMs: minute },
  retryEffect: { firstMs: 250, maxMs: 5 * second },
  /** After licensing did not answer in time. */
  retryLate: { firstMs: second, maxMs: minute },
  retryQuestion: { firstMs: 500, maxMs: 15 * minute },
  retryFeeRefund: { firstMs: 2 * second, maxMs: hour },
  /** The processor adds the application fee within an hour of the charge. After this time it never will. */
  feeRefundGivenUp: 30 * day,
  /** A request that was running when its fee refund was cancelled takes effect within this time, or never. */
  cancelledFeeRefundWatched: hour,
  /** How long a lease lasts: longer than the calls that are made under it. */
  lease: 20 * second,
  /** How often a queue is read while a row of it will be due soon. */
  poll: 250,
  upkeep: 30 * second,
  /** The processor may list an event this long after it happened. */
  listedLate: hour,
  /** The processor lists no events that are older. */
  listed: 30 * day,
  /** Longer than the processor lists or repeats events, so that a deleted event cannot arrive again as a new one. */
  handledEventKept: 45 * day,
  /** How long facts of payments that were not made through a checkout session are kept. */
  unlinkedFactKept: 45 * day,
  /** How long facts of other shops wait for their sale. */
  waitingSaleFactKept: 90 * day,
} as const

/** How often a question may remain without an answer before billing decides without it as far as possible. */
export const maxUnanswered = 3

/**
 * How often a revocation is postponed, with the pauses of `retryEffect`, while an event or a purchase that may prevent it is
 * waiting: about five minutes. Time in which billing does not run does not count.
 */
export const maxPostponements = 60
