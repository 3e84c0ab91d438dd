import { callContext } from './call-context.ts'
import { ServiceError } from './errors.ts'

/** Nobody waits for the answer of the call being served any more. */
export class GivenUp extends ServiceError {
  override name = 'GivenUp'

  constructor() {
    super('unavailable', 'the caller has given up: nothing was changed')
  }
}

/**
 * Refuses to go on where the caller of the call being served has given up. It may have asked again since, and have been
 * answered otherwise: ask before a commit, with the locks held under which that was decided. A process that was stopped
 * in the middle of a call and goes on a minute later would change what everybody takes for refused.
 *
 * @throws GivenUp
 */
export function refuseGivenUp(): void {
  const call = callContext()
  if (call && (call.signal.aborted || Date.now() >= call.deadlineMs)) throw new GivenUp()
}
