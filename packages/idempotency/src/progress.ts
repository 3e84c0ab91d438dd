import type { ServedKey } from '@licensing/grpc/call-context'

/** How far the call of a key is, from its handler to what runs the handler. */
export interface Progress {
  /** It goes on with what an earlier call has committed. */
  resumes: boolean
  /** It has committed a change after which something else follows. */
  isUnfinished: boolean
}

const calls = new WeakMap<ServedKey, Progress>()

export function startProgress(key: ServedKey, resumes: boolean): Progress {
  const progress = { resumes, isUnfinished: false }
  calls.set(key, progress)
  return progress
}

/** @throws Error where the handler is not run by `createRepeatable` */
export function progressOf(key: ServedKey): Progress {
  const progress = calls.get(key)
  if (!progress) throw new Error('the RPC is not repeatable: wrap its handler where the RPCs are listed')
  return progress
}
