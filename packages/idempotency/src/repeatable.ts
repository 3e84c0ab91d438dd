import { create, fromBinary } from '@bufbuild/protobuf'
import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf'
import type { Database, Sql } from '@licensing/database/connect'
import { callContext } from '@licensing/grpc/call-context'
import type { ServedKey } from '@licensing/grpc/call-context'
import { ServiceError } from '@licensing/grpc/errors'
import { createTurns } from '@licensing/grpc/turns'
import type { Logger } from '@licensing/process/log'
import { quotaExceeded } from '@licensing/quotas/quota'
import { AnsweredBefore, bytesOf } from './once.ts'
import { startProgress } from './progress.ts'
import { findRecord, findUsage, keepAnswer } from './record-queries.ts'
import type { KeptRecord } from './record-queries.ts'

/**
 * A handler whose calls may carry an idempotency key; its change is made within `once`. Where that leaves the answer
 * unfinished and the call ends before what follows is done, a repetition is given the answer as `begun`: it does what
 * follows, which has to be harmless when it is done twice, and may go through its transaction again.
 */
type RepeatableHandler<R, O extends DescMessage> = (
  request: R,
  begun?: MessageShape<O>,
) => Promise<MessageInitShape<O>>

type Repeatable = <R, O extends DescMessage>(
  schema: O,
  handler: RepeatableHandler<R, O>,
) => (request: R) => Promise<MessageInitShape<O>>

interface RepeatableDependencies {
  sql: Database
  log: Logger
}

/**
 * Makes handlers repeatable: a call whose key was answered within 24 hours is answered with that, and its handler is not
 * run; another body is `idempotency_mismatch`. If the answers of an account take all of its quota, a new key is refused with
 * `quota_exceeded`, and nothing is done. A call that fails keeps nothing. Calls with the same key that arrive
 * together follow one another here, without a connection of the database in hand.
 *
 * @example
 * const repeatable = createRepeatable(deps)
 * implement(CatalogService, { createPlan: repeatable(PlanSchema, (request) => createPlan(deps, request)), … })
 */
export function createRepeatable(deps: RepeatableDependencies): Repeatable {
  const turns = createTurns('another call with this Idempotency-Key has not ended yet: try again')
  return (schema, handler) => async (request) => {
    const key = callContext()?.idempotencyKey
    if (!key) return handler(request)
    const turn = JSON.stringify([key.accountId, key.path, key.key])
    return turns.inTurn(turn, () => answerOnce(deps, key, schema, (begun) => handler(request, begun)))
  }
}

async function answerOnce<O extends DescMessage>(
  deps: RepeatableDependencies,
  key: ServedKey,
  schema: O,
  handle: (begun?: MessageShape<O>) => Promise<MessageInitShape<O>>,
): Promise<MessageInitShape<O>> {
  let record = await findRecord(deps.sql, key)
  if (!record) await checkRoom(deps.sql, key.accountId)
  for (;;) {
    if (record) checkSame(key, record)
    key.replayed = record !== undefined
    if (record?.is_finished) return fromBinary(schema, record.answer)
    const progress = startProgress(key, record !== undefined)
    try {
      const answer = create(schema, await handle(record && fromBinary(schema, record.answer)))
      if (record || progress.isUnfinished) await finish(deps, key, bytesOf(schema, answer))
      return answer
    } catch (error) {
      if (!(error instanceof AnsweredBefore)) throw error
      record = error.record
    }
  }
}

/**
 * Before anything is done: an answer that could not be kept would be a change that a repetition makes again. Calls that
 * come at the same time may exceed the quota by their own answers.
 */
async function checkRoom(sql: Sql, accountId: string): Promise<void> {
  const { used, most } = await findUsage(sql, accountId)
  if (used >= most) throw quotaExceeded('idempotency_bytes', Number(most))
}

function checkSame(key: ServedKey, record: KeptRecord): void {
  if (record.body_hash.equals(key.bodyHash)) return
  throw new ServiceError(
    'idempotency_mismatch',
    'this Idempotency-Key was used before with a different body: use a new key for a new request',
  )
}

// All is done: what a repetition would do again is harmless.
async function finish(
  { sql, log }: RepeatableDependencies,
  key: ServedKey,
  answer: Uint8Array,
): Promise<void> {
  await keepAnswer(sql, key, { answer, isFinished: true }).catch((error: unknown) =>
    log.warn({ err: error, path: key.path }, 'an answer is not recorded as finished'),
  )
}
