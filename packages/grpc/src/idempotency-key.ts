import { fromBinary, toBinary, create } from '@bufbuild/protobuf'
import type { DescMethod } from '@bufbuild/protobuf'
import { MethodOptions_IdempotencyLevel } from '@bufbuild/protobuf/wkt'
import type { Metadata } from '@grpc/grpc-js'
import { IdempotencyKeySchema } from '@licensing/proto/idempotency'
import { AsyncLocalStorage } from 'node:async_hooks'
import type { ServedKey } from './call-context.ts'

/** Two requests of an account with the same path and key are the same request. */
export interface IdempotencyKey {
  /** Path of the REST request. */
  path: string
  key: string
  /** SHA-256 of the request's body. */
  bodyHash: Uint8Array
}

const keyName = 'idempotency-key-bin'
const replayedName = 'idempotent-replayed'
const storage = new AsyncLocalStorage<IdempotencyKey & { replayed: boolean }>()

/**
 * Runs `work`. Its calls carry the idempotency key, except calls of RPCs without side effects. The called service does not
 * pass the key on.
 *
 * @returns what `work` returns, and whether it is the answer of an earlier call
 */
export async function withIdempotencyKey<T>(
  key: IdempotencyKey,
  work: () => Promise<T>,
): Promise<{ value: T; replayed: boolean }> {
  const sent = { ...key, replayed: false }
  const value = await storage.run(sent, work)
  return { value, replayed: sent.replayed }
}

/**
 * Adds the key of `withIdempotencyKey` to the metadata of a call.
 *
 * @returns a function to call with the metadata of the answer; undefined if there is no key to send
 */
export function sendKey(method: DescMethod, metadata: Metadata): ((answer: Metadata) => void) | undefined {
  if (method.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS) return undefined
  const sent = storage.getStore()
  if (!sent) return undefined
  const { path, key, bodyHash } = sent
  const message = create(IdempotencyKeySchema, { path, key, bodyHash })
  metadata.set(keyName, Buffer.from(toBinary(IdempotencyKeySchema, message)))
  return (answer) => {
    if (answer.get(replayedName).length > 0) sent.replayed = true
  }
}

/** The key in the metadata of a call, with the account in its request. */
export function servedKey(metadata: Metadata, request: object): ServedKey | undefined {
  const [packed] = metadata.get(keyName)
  if (!(packed instanceof Buffer)) return undefined
  const { accountId } = request as { accountId?: unknown }
  if (typeof accountId !== 'string' || accountId === '') return undefined
  const { path, key, bodyHash } = fromBinary(IdempotencyKeySchema, packed)
  return { accountId, path, key, bodyHash, replayed: false }
}

/** Marks an answer as the answer of an earlier call. */
export function markReplayed(metadata: Metadata): Metadata {
  metadata.set(replayedName, 'true')
  return metadata
}
