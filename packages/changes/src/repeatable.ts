import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { DescMessage, DescService, MessageInitShape, MessageShape } from '@bufbuild/protobuf'
import type { Database, Sql } from '@licensing/database/connect'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { callContext } from '@licensing/grpc/call-context'
import type { ServedKey } from '@licensing/grpc/call-context'
import { ServiceError } from '@licensing/grpc/errors'
import { createKeyedQueue } from '@licensing/grpc/keyed-queue'
import type { Logger } from '@licensing/process/log'
import { createBatcher } from './batcher.ts'
import { AlreadyAnswered, continuing, keyOfCall, refusalOf, withoutSecrets } from './claims.ts'
import { deleteRecord, findKeys, recordAnswers } from './record-queries.ts'
import type { AnswerRecord, FoundKey } from './record-queries.ts'

/**
 * A handler whose calls may have an Idempotency-Key. It makes its change with `change` and an answer to record. An answer is
 * unfinished if more work follows the commit, such as a call of another service. If the call fails before that work is
 * done, its repetition gets the answer as `unfinishedAnswer` and does the work. Doing the work twice must have no further effect.
 */
type RepeatableHandler<R, O extends DescMessage> = (
  request: R,
  unfinishedAnswer?: MessageShape<O>,
) => Promise<MessageInitShape<O>>

/** Type of an RPC's handler in a file of its own. */
export type HandlerOf<S extends DescService, Rpc extends keyof S['method'], Deps> = (
  deps: Deps,
  ...call: Parameters<RepeatableHandler<MessageShape<S['method'][Rpc]['input']>, S['method'][Rpc]['output']>>
) => Promise<MessageInitShape<S['method'][Rpc]['output']>>

type Repeatable = <R, O extends DescMessage>(
  schema: O,
  handler: RepeatableHandler<R, O>,
  options?: RepeatableOptions<R>,
) => (request: R) => Promise<MessageInitShape<O>>

interface RepeatableDependencies {
  sql: Database
  log: Logger
}

interface RepeatableOptions<R> {
  /** The handler only makes one change: an earlier answer need not be looked up before, as the change finds it. */
  isOneChange?: boolean
  /** Throws if the caller may not have the answer of an earlier call. */
  checkCaller?: (request: R) => Promise<void>
}

/**
 * Makes handlers repeatable. If a call with the same key was answered within 24 hours, the call gets that answer and its
 * handler does not run; if its body is different, it gets `idempotency_mismatch`. If the recorded answers of an account
 * have used up its quota, a call with a new key is refused with `quota_exceeded` and does nothing. A call that fails
 * records nothing. Concurrent calls with the same key run one after the other. While they wait, they use no database
 * connection.
 *
 * @example
 * const repeatable = createRepeatable(deps)
 * implement(CatalogService, { createPlan: repeatable(PlanSchema, (request) => createPlan(deps, request)), … })
 */
export function createRepeatable({ sql, log }: RepeatableDependencies): Repeatable {
  const queue = createKeyedQueue('another call with this Idempotency-Key has not ended yet: try again')
  const find = createBatcher<ServedKey, FoundKey>((keys) => findKeys(sql, keys), {
    maxBatchSize: 100,
    isTransient: isDatabaseUnavailable,
  })
  return (schema, handler, { isOneChange = false, checkCaller } = {}) =>
    async (request) => {
      const key = callContext()?.idempotencyKey
      if (!key) return handler(request)
      const run = async (earlier?: AnswerRecord) => {
        continuing.set(key, earlier !== undefined)
        const answer = create(schema, await handler(request, earlier && fromBinary(schema, earlier.answer)))
        if (continuing.get(key)) await recordFinished(key, toBinary(schema, withoutSecrets(schema, answer)))
        return answer
      }
      // Runs after all work of the call. If it fails, a repetition does the work after the commit again, which has no effect.
      const recordFinished = (key: ServedKey, answer: Uint8Array) =>
        recordAnswers(sql, [{ key, answer, isFinished: true }]).catch((error: unknown) =>
          log.warn({ err: error, path: key.path }, 'an answer is not recorded as finished'),
        )
      const queueKey = JSON.stringify([key.accountId, key.path, key.key])
      return queue.run(queueKey, async () => {
        try {
          const refusal = isOneChange ? undefined : refusalOf(await find(key))
          if (refusal) throw refusal
          return await run()
        } catch (error) {
          if (!(error instanceof AlreadyAnswered)) throw error
          await checkCaller?.(request)
          checkSameBody(key, error.record)
          key.replayed = true
          return error.record.is_finished ? fromBinary(schema, error.record.answer) : await run(error.record)
        }
      })
    }
}

function checkSameBody(key: ServedKey, record: AnswerRecord): void {
  if (record.body_hash.equals(key.bodyHash)) return
  throw new ServiceError(
    'idempotency_mismatch',
    'this Idempotency-Key was used before with a different body: use a new key for a new request',
  )
}

/**
 * Deletes the recorded, unfinished answer of a call that has undone its change, so that the key can be used again. The
 * record stays if the call is a repetition, because the earlier call may still be running.
 */
export async function deleteUnfinishedRecord(sql: Sql): Promise<void> {
  const key = keyOfCall()
  if (key && !key.replayed) await deleteRecord(sql, key)
}
