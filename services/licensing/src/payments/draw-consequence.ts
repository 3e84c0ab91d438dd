import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Transaction } from '@licensing/database/connect'
import { ServiceError } from '@licensing/grpc/errors'
import type { PlanStatus } from '@licensing/proto/closed-sets'
import type { LicenceSchema, PaymentCauseRequest } from '@licensing/proto/licensing'
import type { LicensingDeps } from '../dependencies.ts'
import { lockPlanOf } from '../licences/licence-queries.ts'
import type { StandingRow } from '../licences/licence-queries.ts'
import { Moved, untilSettled } from '../licences/moved.ts'
import { licenceMessage } from '../licences/licence-row.ts'
import type { LicenceRow } from '../licences/licence-row.ts'
import type { Cause } from '../licences/licence.ts'
import { settle } from '../licences/settle-licence.ts'
import { claimCause, lockLicence } from './payment-queries.ts'

type Consequence = Pick<PaymentCauseRequest, 'accountId' | 'licenceId' | 'cause'>

/**
 * Draws a consequence of a payment once for each cause. `work` finds the licence locked, its plan too. Where it
 * answers undefined, or the cause has been seen before, the licence is answered as it stands.
 */
export async function once(
  { outbox }: LicensingDeps,
  effect: Cause,
  request: Consequence,
  work: (tx: Transaction, licence: StandingRow, plan: PlanStatus) => Promise<LicenceRow | undefined>,
): Promise<MessageInitShape<typeof LicenceSchema>> {
  const row = await untilSettled(() =>
    outbox.transaction(async (tx) => {
      const { licence, plan } = await lockWithPlan(tx, request)
      if (!(await claimCause(tx, licence.id, effect, request.cause))) return licence
      return (await work(tx, licence, plan)) ?? licence
    }),
  )
  return licenceMessage(row)
}

// Lock order: the plan before the licence.
async function lockWithPlan(
  tx: Transaction,
  request: Consequence,
): Promise<{ licence: StandingRow; plan: PlanStatus }> {
  const plan = await lockPlanOf(tx, request)
  const licence = plan && (await lockLicence(tx, request))
  if (!licence) throw new ServiceError('not_found', `there is no licence ${request.licenceId}`)
  if (licence.plan_id !== plan.id) throw new Moved()
  return { licence, plan: plan.status }
}

/**
 * What a payment causes. Where the table has nothing for the licence as it stands nothing changes: it is a payment
 * that asks, not a person who could be refused.
 */
export function drawConsequence(
  deps: LicensingDeps,
  cause: Cause,
  request: Consequence,
): Promise<MessageInitShape<typeof LicenceSchema>> {
  return once(deps, cause, request, (tx, licence, plan) => {
    return settle(tx, licence, { causes: [cause], circumstances: { plan }, by: byPayment(request) })
  })
}

export const byPayment = ({ cause }: Consequence) => ({ actor: 'processor', cause })
