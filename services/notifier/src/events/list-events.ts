import type { MessageInitShape } from '@bufbuild/protobuf'
import { pageSize } from '@licensing/database/page'
import type { ListEventsRequest, ListEventsResponseSchema } from '@licensing/proto/notifier'
import type { NotifierDependencies } from '../dependencies.ts'
import { findEvents } from './event-queries.ts'
import { keptSince } from './retention.ts'

/** What a consumer that missed deliveries reads to catch up. */
export async function listEvents(
  { sql, clock }: NotifierDependencies,
  { accountId, onlyApplicationId, after, limit }: ListEventsRequest,
): Promise<MessageInitShape<typeof ListEventsResponseSchema>> {
  const events = await findEvents(sql, {
    accountId,
    ...(onlyApplicationId !== undefined && { applicationId: onlyApplicationId }),
    after,
    keptSince: keptSince(clock.now()),
    limit: pageSize(limit),
  })
  return { envelopes: events.map((event) => event.body), nextAfter: events.at(-1)?.sequence ?? after }
}
