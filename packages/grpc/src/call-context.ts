import { AsyncLocalStorage } from 'node:async_hooks'

/** The call being served. Outgoing calls made for it have its deadline at the latest, and are cancelled with it. */
export interface CallContext {
  /** Point in time, in milliseconds since the epoch. */
  deadlineMs: number
  signal: AbortSignal
  /** Set if the caller sent an idempotency key. */
  idempotencyKey?: ServedKey | undefined
}

/** The idempotency key of a call, and whether the call gets the answer of an earlier call with that key. */
export interface ServedKey {
  readonly accountId: string
  readonly path: string
  readonly key: string
  readonly bodyHash: Uint8Array
  replayed: boolean
}

const storage = new AsyncLocalStorage<CallContext>()

export function withCallContext<T>(context: CallContext, work: () => T): T {
  return storage.run(context, work)
}

export function callContext(): CallContext | undefined {
  return storage.getStore()
}
