import { pageSize } from '@licensing/database/page'
import type { Handler } from '../dependencies.ts'
import { findEvents, findLatestSequence } from './event-queries.ts'

/** The events that a consumer reads to catch up after it missed deliveries. */
export const listEvents: Handler<'listEvents'> = async (
  { sql, keptSince },
  { accountId, onlyApplicationId, after, limit },
) => {
  const events = await findEvents(sql, {
    accountId,
    ...(onlyApplicationId !== undefined && { applicationId: onlyApplicationId }),
    after,
    keptSince: keptSince(),
    limit: pageSize(limit),
  })
  return { envelopes: events.map((event) => event.body), nextAfter: events.at(-1)?.sequence ?? after }
}

/**
 * The account's latest sequence. An event and its number are committed together, so every event up to this number is
 * recorded, and every later event has a greater number. All applications of the account share the sequence.
 */
export const getLatestSequence: Handler<'getLatestSequence'> = async ({ sql }, { accountId }) => {
  return { sequence: await findLatestSequence(sql, accountId) }
}
