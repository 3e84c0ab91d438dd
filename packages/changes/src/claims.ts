import { clearField, clone, create, getOption, toBinary } from '@bufbuild/protobuf'
import type { DescMessage, Message, MessageInitShape, MessageShape } from '@bufbuild/protobuf'
import type { Transaction } from '@licensing/database/connect'
import { sendAlong } from '@licensing/database/transaction'
import { callContext } from '@licensing/grpc/call-context'
import type { ServedKey } from '@licensing/grpc/call-context'
import { shown_once } from '@licensing/proto/idempotency'
import { quotaExceeded } from '@licensing/quotas/quota'
import { findKeys, lockKey, recordAnswers, tryLockKeys } from './record-queries.ts'
import type { AnswerRecord, FoundKey, NewRecord } from './record-queries.ts'

/** The answer of a call, for the record of its key. */
export interface RecordedAnswer<O extends DescMessage, T> {
  schema: O
  toMessage: (made: T) => MessageInitShape<O>
}

/** The outcome of a call that shares a transaction with other calls. */
export type CallOutcome<T> =
  | { kind: 'done'; made: T }
  | { kind: 'refused'; error: Error }
  // Another transaction has locked what the call changes or its key, or has changed it meanwhile.
  | { kind: 'busy' }

/** Ends the work of a call if another call has used its key. */
export class AlreadyAnswered extends Error {
  override name = 'AlreadyAnswered'
  readonly record: AnswerRecord

  constructor(record: AnswerRecord) {
    super('the idempotency key is in use by an earlier call')
    this.record = record
  }
}

/**
 * Why a call may not do its work. Its answer must be recorded, or a repetition would do the work again; so if the recorded
 * answers of an account have used up its quota, it is refused. Concurrent calls may exceed the quota by their own answers.
 */
export function refusalOf(found: FoundKey): Error | undefined {
  if (found.body_hash) return new AlreadyAnswered(found)
  return found.used < found.quota ? undefined : quotaExceeded('idempotency_bytes', Number(found.quota))
}

/**
 * Claims the key of a call until the end of the transaction. If another transaction has claimed it, waits for its end. Sent
 * with the first statement of the call's work, it takes no round trip.
 *
 * @throws AlreadyAnswered; ServiceError `quota_exceeded`
 */
export async function claimKey(tx: Transaction, key: ServedKey): Promise<void> {
  const [, [found]] = await Promise.all([lockKey(tx, key).execute(), findKeys(tx, [key]).execute()])
  const refusal = refusalOf(found!)
  if (refusal) throw refusal
}

/**
 * Claims the keys of calls until the end of the transaction, without waiting for other transactions.
 *
 * @returns the outcomes of the calls whose keys it could not claim
 */
export async function claimKeys(
  tx: Transaction,
  keys: ServedKey[],
): Promise<Map<ServedKey, CallOutcome<never>>> {
  const closed = new Map<ServedKey, CallOutcome<never>>()
  if (keys.length === 0) return closed
  const [locks, found] = await Promise.all([tryLockKeys(tx, keys).execute(), findKeys(tx, keys).execute()])
  keys.forEach((key, at) => {
    const error = refusalOf(found[at]!)
    const isBusy = !locks[at]!.is_locked && !(error instanceof AlreadyAnswered)
    if (isBusy) closed.set(key, { kind: 'busy' })
    else if (error) closed.set(key, { kind: 'refused', error })
  })
  return closed
}

/** Records answers in the transaction of their changes. Sent with its commit, it takes no round trip. */
export async function record(tx: Transaction, records: NewRecord[]): Promise<void> {
  if (records.length > 0) await sendAlong(tx, recordAnswers(tx, records))
}

/** The bytes of an answer, as they are recorded. */
export function bytesOf<O extends DescMessage, T>(
  { schema, toMessage }: RecordedAnswer<O, T>,
  made: T,
): Uint8Array {
  return toBinary(schema, withoutSecrets(schema, create(schema, toMessage(made))))
}

/** By the keys of the calls that run: whether an unfinished answer is recorded, from which the call continues. */
export const continuing = new WeakMap<ServedKey, boolean>()

/** @throws Error if the handler of the current call is not run by `createRepeatable` */
export function keyOfCall(): ServedKey | undefined {
  const key = callContext()?.idempotencyKey
  if (key && !continuing.has(key)) {
    throw new Error('the RPC is not repeatable: wrap its handler where the RPCs are listed')
  }
  return key
}

/** An answer without `shown_once` fields (proto/rpc/v1/idempotency.proto), also in nested messages. */
export function withoutSecrets<O extends DescMessage>(schema: O, answer: MessageShape<O>): MessageShape<O> {
  if (!hasSecrets(schema)) return answer
  const copy = clone(schema, answer)
  clearSecrets(schema, copy)
  return copy
}

// Reading the options of all fields takes 100 µs.
const known = new Map<DescMessage, boolean>()

function hasSecrets(schema: DescMessage): boolean {
  const found = known.get(schema) ?? reachesSecret(schema)
  known.set(schema, found)
  return found
}

function reachesSecret(schema: DescMessage, visited = new Set<DescMessage>()): boolean {
  if (visited.has(schema)) return false
  visited.add(schema)
  return schema.fields.some(
    (field) => getOption(field, shown_once) || (field.message && reachesSecret(field.message, visited)),
  )
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
