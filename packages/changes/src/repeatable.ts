import { clearField, clone, create, fromBinary, getOption, toBinary } from '@bufbuild/protobuf'
import type { DescMessage, DescService, Message, MessageInitShape, MessageShape } from '@bufbuild/protobuf'
import type { Database, Sql } from '@licensing/database/connect'
import { callContext } from '@licensing/grpc/call-context'
import type { ServedKey } from '@licensing/grpc/call-context'
import { ServiceError } from '@licensing/grpc/errors'
import { createKeyedQueue } from '@licensing/grpc/keyed-queue'
import type { Logger } from '@licensing/process/log'
import { shown_once } from '@licensing/proto/idempotency'
import { quotaExceeded } from '@licensing/quotas/quota'
import { findRecord, findUsage, deleteRecord, recordAnswer } from './record-queries.ts'
import type { AnswerRecord } from './record-queries.ts'

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
) => (request: R) => Promise<MessageInitShape<O>>

interface RepeatableDependencies {
  sql: Database
  log: Logger
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
export function createRepeatable(deps: RepeatableDependencies): Repeatable {
  const queue = createKeyedQueue('another call with this Idempotency-Key has not ended yet: try again')
  return (schema, handler) => async (request) => {
    const key = callContext()?.idempotencyKey
    if (!key) return handler(request)
    const queueKey = JSON.stringify([key.accountId, key.path, key.key])
    return queue.run(queueKey, () =>
      answerOnce(deps, key, schema, (unfinishedAnswer) => handler(request, unfinishedAnswer)),
    )
  }
}

async function answerOnce<O extends DescMessage>(
  deps: RepeatableDependencies,
  key: ServedKey,
  schema: O,
  handle: (unfinishedAnswer?: MessageShape<O>) => Promise<MessageInitShape<O>>,
): Promise<MessageInitShape<O>> {
  let record = await findRecord(deps.sql, key)
  if (!record) await checkQuota(deps.sql, key.accountId)
  for (;;) {
    if (record) checkSameBody(key, record)
    key.replayed = record !== undefined
    if (record?.is_finished) return fromBinary(schema, record.answer)
    const progress: Progress = { resumes: record !== undefined, isUnfinished: false }
    progressByKey.set(key, progress)
    try {
      const answer = create(schema, await handle(record && fromBinary(schema, record.answer)))
      if (record || progress.isUnfinished)
        await recordFinished(deps, key, toBinary(schema, withoutSecrets(schema, answer)))
      return answer
    } catch (error) {
      if (!(error instanceof AlreadyAnswered)) throw error
      record = error.record
    }
  }
}

/**
 * Refuses a call before it changes anything: if its answer could not be recorded, a repetition would make the change
 * again. Concurrent calls may exceed the quota by their own answers.
 */
async function checkQuota(sql: Sql, accountId: string): Promise<void> {
  const { used, quota } = await findUsage(sql, accountId)
  if (used >= quota) throw quotaExceeded('idempotency_bytes', Number(quota))
}

function checkSameBody(key: ServedKey, record: AnswerRecord): void {
  if (record.body_hash.equals(key.bodyHash)) return
  throw new ServiceError(
    'idempotency_mismatch',
    'this Idempotency-Key was used before with a different body: use a new key for a new request',
  )
}

// Runs after all work of the call. If it fails, a repetition does the work after the commit again, which has no effect.
async function recordFinished(
  { sql, log }: RepeatableDependencies,
  key: ServedKey,
  answer: Uint8Array,
): Promise<void> {
  await recordAnswer(sql, key, { answer, isFinished: true }).catch((error: unknown) =>
    log.warn({ err: error, path: key.path }, 'an answer is not recorded as finished'),
  )
}

/**
 * Deletes the recorded, unfinished answer of a call that has undone its change, so that the key can be used again. The
 * record stays if the call is a repetition, because the earlier call may still be running.
 */
export async function deleteUnfinishedRecord(sql: Sql): Promise<void> {
  const key = callContext()?.idempotencyKey
  if (!key || progressOf(key).resumes) return
  await deleteRecord(sql, key)
}

/** Ends the work of a call if another call has used its key. */
export class AlreadyAnswered extends Error {
  override name = 'AlreadyAnswered'
  readonly record: AnswerRecord

  constructor(record: AnswerRecord) {
    super('the idempotency key is in use by an earlier call')
    this.record = record
  }
}

/** The state of a call with a key. */
interface Progress {
  /** It continues after the commit of an earlier call. */
  resumes: boolean
  /** It has committed its change, but more work must follow. */
  isUnfinished: boolean
}

const progressByKey = new WeakMap<ServedKey, Progress>()

/** @throws Error if the handler is not run by `createRepeatable` */
export function progressOf(key: ServedKey): Progress {
  const progress = progressByKey.get(key)
  if (!progress) throw new Error('the RPC is not repeatable: wrap its handler where the RPCs are listed')
  return progress
}

/** A copy of an answer without `shown_once` fields (proto/rpc/v1/idempotency.proto), also in nested messages. */
export function withoutSecrets<O extends DescMessage>(schema: O, answer: MessageShape<O>): MessageShape<O> {
  const copy = clone(schema, answer)
  clearSecrets(schema, copy)
  return copy
}

function clearSecrets(schema: DescMessage, message: Message): void {
  for (const field of schema.fields) {
    if (getOption(field, shown_once)) clearField(message, field)
    else if (field.message) {
      const value = (message as unknown as Record<string, unknown>)[field.localName]
      const inner = field.fieldKind === 'list' ? (value as Message[]) : value ? [value as Message] : []
      for (const each of inner) clearSecrets(field.message, each)
    }
  }
}
