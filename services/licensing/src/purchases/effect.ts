import { timestampDate } from '@bufbuild/protobuf/wkt'
import { isId } from '@licensing/database/ids'
import { invalid } from '@licensing/grpc/errors'
import type { PurchaseEffect } from '@licensing/proto/purchases'
import { problemOfText, textLimits } from '@licensing/proto/text'

/** Something that happened to a purchase, once its request has been checked. */
export interface Effect {
  accountId: string
  applicationId: string
  purchaseRef: string
  cause: string
  at: Date
  orderedAt: Date
  what: Landed | Renewed | { kind: Exclude<EffectKind, 'landed' | 'renewed'> }
}

export interface Landed {
  kind: 'landed'
  planId: string
  externalRef: string
  endsAt: Date | null
}

export interface Renewed {
  kind: 'renewed'
  endsAt: Date
  planId: string | undefined
}

export type EffectKind = NonNullable<PurchaseEffect['kind']['case']>

/** Kinds that happen to a purchase more than once, each with a cause of its own. */
export type CauseKind = Exclude<EffectKind, 'landed'>

export function planIdOf({ what }: Effect): string | undefined {
  return 'planId' in what ? what.planId : undefined
}

/** Stands for a request that breaks a rule; it is not applied. */
export function unreadable({ accountId, applicationId, purchaseRef, cause }: PurchaseEffect): Effect {
  const never = new Date(0)
  const what = { kind: 'reordered' as const }
  return { accountId, applicationId, purchaseRef, cause, at: never, orderedAt: never, what }
}

/** @throws ServiceError `validation_failed` */
export function readEffect(request: PurchaseEffect): Effect {
  const { accountId, applicationId, purchaseRef, cause } = request
  for (const [pointer, text] of [
    ['/purchase_ref', purchaseRef],
    ['/cause', cause],
  ] as const) {
    const problem = problemOfText(text, textLimits.reference)
    if (problem) throw invalid(pointer, problem)
  }
  if (!request.at) throw invalid('/at', 'is needed')
  const at = timestampDate(request.at)
  const orderedAt = request.orderedAt ? timestampDate(request.orderedAt) : at
  return { accountId, applicationId, purchaseRef, cause, at, orderedAt, what: readKind(request.kind) }
}

function readKind(kind: PurchaseEffect['kind']): Effect['what'] {
  switch (kind.case) {
    case undefined:
      throw invalid('/kind', 'is needed')
    case 'landed': {
      const { planId, externalRef, endsAt } = kind.value
      const problem = problemOfText(externalRef, textLimits.reference)
      if (problem) throw invalid('/external_ref', problem)
      return {
        kind: 'landed',
        planId: checkPlanId(planId),
        externalRef,
        endsAt: endsAt ? timestampDate(endsAt) : null,
      }
    }
    case 'renewed': {
      const { planId, endsAt } = kind.value
      if (!endsAt) throw invalid('/ends_at', 'is needed')
      return {
        kind: 'renewed',
        planId: planId === undefined ? undefined : checkPlanId(planId),
        endsAt: timestampDate(endsAt),
      }
    }
    default:
      return { kind: kind.case }
  }
}

function checkPlanId(planId: string): string {
  if (!isId('pln', planId)) throw invalid('/plan_id', `there is no plan ${planId} in this application`)
  return planId
}
