import type { MessageInitShape } from '@bufbuild/protobuf'
import type { GetLatestSequenceRequest, GetLatestSequenceResponseSchema } from '@licensing/proto/notifier'
import type { NotifierDependencies } from '../dependencies.ts'
import { findLatestSequence } from './event-queries.ts'

/**
 * The account's latest sequence. An event's number and the event commit together, so every event up to it is recorded
 * and every later one has a greater number, whichever application it is of.
 */
export async function getLatestSequence(
  { sql }: NotifierDependencies,
  { accountId }: GetLatestSequenceRequest,
): Promise<MessageInitShape<typeof GetLatestSequenceResponseSchema>> {
  return { sequence: await findLatestSequence(sql, accountId) }
}
