import { AsyncLocalStorage } from 'node:async_hooks'

/** The call being served: outgoing calls made for it end no later than it does, and are cancelled with it. */
export interface CallContext {
  /** Point in time, in milliseconds since the epoch. */
  deadlineMs: number
  signal: AbortSignal
  /** Where its caller may repeat it. */
  idempotencyKey?: ServedKey | undefined
}

/** The idempotency key of a call, and whether it is answered as an earlier call with that key was. */
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
