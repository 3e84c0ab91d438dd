const second = 1_000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

/** Every rule of time between an event and its effect, in milliseconds. */
export const timing = {
  /** What comes out of order comes within moments: a refund, a dispute or an end waits this long for what came before. */
  othersArrive: 2 * second,
  /** A revocation waits at most this long for a look at the processor's list of events. */
  lookAtEvents: 3 * second,
  /** Longest wait of a refund for others that the charge's total shows and no event has reported. */
  missingRefund: 30 * second,
  /** A charge, an invoice or a period has this long to be reported by an event before the processor is asked. */
  eventBeforeQuestion: 100,
  /** A purchase that was paid is provisioned without its charge's time, by which it is ordered, after this. */
  chargeBeforeLanding: second,
  /** Pauses between tries of what fails: the first, doubled up to the longest. */
  retryEvent: { first: 250, longest: minute },
  retryDecision: { first: 250, longest: minute },
  retryEffect: { first: 250, longest: 5 * second },
  retryQuestion: { first: 500, longest: 15 * minute },
  retryFeeRefund: { first: 2 * second, longest: hour },
  /** A charge has its application fee within an hour; one that has none by now never gets one. */
  feeRefundGivenUp: 30 * day,
  /** A request that was under way when its fee refund was canceled has taken effect by then, or never does. */
  canceledFeeRefundWatched: hour,
  /** A claim whose worker died is given to another after this; longer than the calls that it makes take. */
  claim: 20 * second,
  /** Other replicas' work, and work that is due later, is found by looking. */
  poll: 250,
  /** Nothing is due, now or within this time: the pauses between looks grow up to this. */
  idle: 8 * second,
  measure: 5 * second,
  upkeep: 30 * second,
  /** Events may be listed a while after they were made. */
  listedLate: hour,
  /** The processor lists no events that are older. */
  listed: 30 * day,
  /** Longer than the processor lists events or sends them again, so that none comes back as news. */
  handledEventKept: 45 * day,
  /** Facts of payments that are none of ours. */
  unlinkedFactKept: 45 * day,
} as const

/** How often the processor may fail to answer before what can be decided without its answer is. */
export const mostSilences = 3

/**
 * How often a revocation is put off, with the pauses of `retryEffect`, while what may prevent it is known and not carried
 * out: some five minutes. Time in which billing does not run does not count.
 */
export const mostHolds = 60

export type Pauses = { first: number; longest: number }

/** The pause after so many failures in a row. */
export function pauseAfter({ first, longest }: Pauses, failures: number): number {
  return Math.min(first * 2 ** Math.min(failures - 1, 30), longest)
}
