import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import { ServiceError } from '@licensing/grpc/errors'
import type { LicenceSchema, PaymentCauseRequest } from '@licensing/proto/licensing'
import type { LicensingDeps } from '../dependencies.ts'
import { lockPlanOf } from '../licences/licence-queries.ts'
import { Moved, untilSettled } from '../licences/moved.ts'
import { licenceMessage } from '../licences/licence-row.ts'
import type { LicenceRow } from '../licences/licence-row.ts'
import { licenceEvent, transitions } from '../licences/licence.ts'
import type { Transition, TransitionName } from '../licences/licence.ts'
import { changeLicences } from '../licences/transition-queries.ts'
import { claimCause, lockLicence } from './payment-queries.ts'
import type { PaidLicence } from './payment-queries.ts'

type Consequence = Pick<PaymentCauseRequest, 'accountId' | 'licenceId' | 'cause'>

/**
 * Draws a consequence of a payment once for each cause. `work` finds the licence locked, its plan too. Where it
 * answers undefined, or the cause has been seen before, the licence is answered as it stands.
 */
export async function once(
  { outbox }: LicensingDeps,
  effect: string,
  request: Consequence,
  work: (tx: Transaction, licence: PaidLicence, planIsActive: boolean) => Promise<LicenceRow | undefined>,
): Promise<MessageInitShape<typeof LicenceSchema>> {
  const row = await untilSettled(() =>
    outbox.transaction(async (tx) => {
      const { licence, planIsActive } = await lockWithPlan(tx, request)
      if (!(await claimCause(tx, licence.id, effect, request.cause))) return licence
      return (await work(tx, licence, planIsActive)) ?? licence
    }),
  )
  return licenceMessage(row)
}

// Lock order: the plan before the licence.
async function lockWithPlan(
  tx: Transaction,
  request: Consequence,
): Promise<{ licence: PaidLicence; planIsActive: boolean }> {
  const plan = await lockPlanOf(tx, request)
  const licence = plan && (await lockLicence(tx, request))
  if (!licence) throw new ServiceError('not_found', `there is no licence ${request.licenceId}`)
  if (licence.plan_id !== plan.id) throw new Moved()
  return { licence, planIsActive: plan.status === 'active' }
}

/**
 * A consequence that is a transition. Where the licence's state does not allow it nothing changes: it is a payment
 * that asks, not a person who could be told.
 */
export function drawConsequence(
  deps: LicensingDeps,
  name: TransitionName,
  request: Consequence,
): Promise<MessageInitShape<typeof LicenceSchema>> {
  return once(deps, name, request, (tx, licence, planIsActive) => {
    return applyToLocked(tx, name, licence, planIsActive, request.cause)
  })
}

/** Changes a licence that this transaction has locked with its plan; undefined where its state does not allow it. */
export async function applyToLocked(
  tx: Transaction,
  name: TransitionName,
  licence: PaidLicence,
  planIsActive: boolean,
  cause: string,
): Promise<LicenceRow | undefined> {
  const transition: Transition = transitions[name]
  const { onlySuspendedFor } = transition
  if (!transition.from.includes(licence.status)) return undefined
  if (onlySuspendedFor !== undefined && licence.status_reason !== onlySuspendedFor) return undefined
  if (transition.needsActivePlan && !planIsActive) return undefined
  const selection = tx`select l.id, l.status, l.status_reason from licences l where l.id = ${licence.id}`
  const [changed] = await changeLicences(tx, selection, transition, { actor: 'processor', cause })
  if (changed) await append(tx, licenceEvent(transition.emits, changed))
  return changed
}
