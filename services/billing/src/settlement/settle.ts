import type { Transaction } from '@licensing/database/connect'
import type { BillingDeps } from '../dependencies.ts'
import { giveUpCharges } from '../payments/payment-queries.ts'
import { applyLocal } from './apply-local.ts'
import { applyToLicence } from './apply-to-licence.ts'
import { isHeld, nextStep } from './next-step.ts'
import { isLocal } from './step.ts'
import { afterStep, lockStory } from './story.ts'

// A story has a handful of steps for each payment; more means that one does not take effect.
const mostSteps = 500

export interface SettleOptions {
  /** What to make of a charge that is not known: `pending` while it is still looked for. */
  unfound?: 'pending' | 'absent'
  /** Refunds and disputes may wait for others of which there are signs. */
  patient?: boolean
}

/**
 * Draws from a session's story all that follows from it and has not been drawn yet, with the session locked. What needs
 * only this database is committed together and first, so that it does not wait for a service that is away.
 *
 * @returns whether something is held back for the moment
 */
export async function settle(
  deps: BillingDeps,
  sessionId: string,
  options: SettleOptions = {},
): Promise<boolean> {
  for (let turns = 0; turns < mostSteps; turns += 1) {
    const left = await deps.outbox.transaction((tx) => turn(deps, tx, sessionId, options))
    if (left !== 'more') return left === 'held'
  }
  throw new Error(`session ${sessionId} does not settle`)
}

/** All local steps that come next, or one that changes the licence. @returns what is left to do */
async function turn(
  deps: BillingDeps,
  tx: Transaction,
  sessionId: string,
  { unfound = 'pending', patient = false }: SettleOptions,
): Promise<'more' | 'held' | 'nothing'> {
  let story = await lockStory(tx, sessionId, patient)
  if (!story) return 'nothing'
  for (let steps = 0; steps < mostSteps; steps += 1) {
    if (unfound === 'absent' && story.payments.some((payment) => payment.charge_state === 'pending')) {
      await giveUpCharges(tx, sessionId)
      story = await afterStep(tx, story)
      continue
    }
    const step = nextStep(story, deps.failuresBeforeSuspend)
    if (!step) return isHeld(story) ? 'held' : 'nothing'
    if (!isLocal(step)) {
      if (steps === 0) await applyToLicence(deps, tx, story, step)
      return 'more'
    }
    await applyLocal(tx, story, step, unfound)
    story = await afterStep(tx, story)
  }
  throw new Error(`session ${sessionId} does not settle`)
}
