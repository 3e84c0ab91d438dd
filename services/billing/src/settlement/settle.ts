import type { BillingDeps } from '../deps.ts'
import { giveUpCharges } from '../payments/payment-queries.ts'
import { applyLocal } from './apply-local.ts'
import { applyToLicence } from './apply-to-licence.ts'
import { nextStep } from './next-step.ts'
import { isLocal } from './step.ts'
import { lockStory } from './story.ts'

// A story has a handful of steps; more means that one does not take effect.
const mostSteps = 1_000

/**
 * Draws from a session's story all that follows from it and has not been drawn yet, with the session locked. What needs
 * only this database is committed together and first, so that it does not wait for a service that is away.
 *
 * @param unfound what to make of a charge that is not known yet
 */
export async function settle(
  deps: BillingDeps,
  sessionId: string,
  unfound: 'pending' | 'absent' = 'pending',
): Promise<void> {
  if (unfound === 'absent') await giveUpCharges(deps.sql, sessionId)
  for (let steps = 0; steps < mostSteps;) {
    const more = await deps.outbox.transaction(async (tx) => {
      for (let local = 0; ; local += 1) {
        steps += 1
        const story = await lockStory(tx, sessionId)
        const step = story && nextStep(story, deps.failuresBeforeSuspend)
        if (!story || !step) return false
        if (steps >= mostSteps) throw new Error(`session ${sessionId} does not settle: ${step.do} again`)
        if (isLocal(step)) {
          await applyLocal(tx, story, step, unfound)
          continue
        }
        if (local === 0) await applyToLicence(deps, tx, story, step)
        return true
      }
    })
    if (!more) return
  }
}
