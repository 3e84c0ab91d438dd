import { callContext } from './call-context.ts'
import { ServiceError } from './errors.ts'

/** The caller no longer waits for the answer. */
export class GivenUp extends ServiceError {
  override name = 'GivenUp'

  constructor() {
    super('unavailable', 'the caller has given up: nothing was changed')
  }
}

/**
 * Stops the call being served if its caller no longer waits for the answer. The caller may have repeated the call since
 * then, with another outcome. Call this before the commit, while the transaction still holds its locks. Without it, a
 * process that was suspended during a call and continues a minute later would commit a change that was reported as failed.
 *
 * @throws GivenUp
 */
export function refuseGivenUp(): void {
  if (hasGivenUp()) throw new GivenUp()
}

/** Whether the caller of the call being served no longer waits for the answer. */
export function hasGivenUp(): boolean {
  const call = callContext()
  return call !== undefined && (call.signal.aborted || Date.now() >= call.deadlineMs)
}
