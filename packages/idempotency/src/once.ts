import { create, toBinary } from '@bufbuild/protobuf'
import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf'
import type { Database, Sql, Transaction } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'
import { callContext } from '@licensing/grpc/call-context'
import type { ServedKey } from '@licensing/grpc/call-context'
import { progressOf } from './progress.ts'
import { claimKey, findRecord, forgetRecord, keepAnswer } from './record-queries.ts'
import type { KeptRecord } from './record-queries.ts'
import { withoutSecrets } from './shown-once.ts'

/** The answer to keep with a key, made from what the work returns. */
export interface Kept<O extends DescMessage, T> {
  schema: O
  answer: (made: T) => MessageInitShape<O>
  /** Whether something has to follow the commit, such as a call of another service: see `createRepeatable`. */
  isUnfinished?: boolean
}

/** Ends the work of a call whose key an earlier call has claimed; `createRepeatable` answers with its record. */
export class AnsweredBefore extends Error {
  override name = 'AnsweredBefore'
  readonly record: KeptRecord

  constructor(record: KeptRecord) {
    super('the idempotency key is in use by a call before')
    this.record = record
  }
}

/**
 * Does the work of a call once for its idempotency key: the work and its answer commit together. Where another call with
 * the key is under way, it waits for the end of that one, and nothing is done where that one commits. Without a key it
 * is the work alone. Comes first in its transaction, after locks that every call of the path takes. Where an unfinished
 * answer is kept, of this call or of one that it goes on with, the work takes that further.
 *
 * @throws what ends the transaction where the call was answered before
 * @example transaction(sql, (tx) => once(tx, { schema: PlanSchema, answer: toPlan }, () => insertPlan(tx, …)))
 */
export async function once<O extends DescMessage, T>(
  tx: Transaction,
  { schema, answer, isUnfinished = false }: Kept<O, T>,
  work: () => Promise<T>,
): Promise<T> {
  const key = callContext()?.idempotencyKey
  if (!key) return work()
  const progress = progressOf(key)
  if (!progress.resumes && !progress.isUnfinished) await claim(tx, key)
  const made = await work()
  const bytes = bytesOf(schema, create(schema, answer(made)))
  await keepAnswer(tx, key, { answer: bytes, isFinished: !isUnfinished })
  progress.isUnfinished = isUnfinished
  return made
}

/** Like `once`, for work that needs no transaction by itself: it has one where there is a key. */
export async function onceAlone<O extends DescMessage, T>(
  sql: Database,
  kept: Kept<O, T>,
  work: (sql: Sql) => Promise<T>,
): Promise<T> {
  if (!callContext()?.idempotencyKey) return work(sql)
  return transaction(sql, (tx) => once(tx, kept, () => work(tx)))
}

/**
 * The change that an unfinished answer is about has been taken back: the call fails, and its key is free. Of a call that
 * goes on with what an earlier one began nothing is forgotten: that one may still be under way.
 */
export async function forget(sql: Sql): Promise<void> {
  const key = callContext()?.idempotencyKey
  if (!key || progressOf(key).resumes) return
  await forgetRecord(sql, key)
}

/** What is kept of an answer. */
export function bytesOf<O extends DescMessage>(schema: O, answer: MessageShape<O>): Uint8Array {
  return toBinary(schema, withoutSecrets(schema, answer))
}

async function claim(tx: Transaction, key: ServedKey): Promise<void> {
  const remainingMs = Math.ceil((callContext()?.deadlineMs ?? 0) - Date.now())
  // A record may be purged between the two statements.
  while (!(await claimKey(tx, key, Math.max(1, remainingMs)))) {
    const record = await findRecord(tx, key)
    if (record) throw new AnsweredBefore(record)
  }
}
