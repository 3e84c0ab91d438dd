import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { timestampDate } from '@bufbuild/protobuf/wkt'

/** The time that rows of a list are of; open where a side is absent. */
export interface Period {
  /** Inclusive. */
  since: Date | undefined
  /** Exclusive. */
  until: Date | undefined
}

export function periodOf({
  since,
  until,
}: {
  since?: Timestamp | undefined
  until?: Timestamp | undefined
}): Period {
  return { since: since && timestampDate(since), until: until && timestampDate(until) }
}
