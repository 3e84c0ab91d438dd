import { timestampDate } from '@bufbuild/protobuf/wkt'
import { isId } from '@licensing/database/ids'
import { checkMetadata, checkReference } from '@licensing/grpc/checks'
import { invalid } from '@licensing/grpc/errors'
import { closedSets, isMember } from '@licensing/proto/closed-sets'
import type { PurchaseEffectKind } from '@licensing/proto/closed-sets'
import type { PurchaseEffect } from '@licensing/proto/purchases'
import type { Metadata } from '@licensing/proto/metadata'

export type EffectKind = PurchaseEffectKind

interface EffectOf<Kind extends EffectKind> {
  accountId: string
  applicationId: string
  purchaseRef: string
  kind: Kind
  cause: string
  at: Date
  orderedAt: Date
  /** A renewal after this time ends the effect. Absent or null: `at`. */
  since?: Date | null
}

export interface PaidEffect extends EffectOf<'paid'> {
  planId: string
  externalRef: string
  /** Null: the purchase has no end date. */
  endsAt: Date | null
  /** Entries for the licence's metadata. */
  metadata: Metadata
  /** Null: the payment does not set the end of updates. */
  updatesUntil: Date | null
  /** Whether it is a subscription that the processor will charge again. */
  renews: boolean
}

export interface RenewedEffect extends EffectOf<'renewed'> {
  planId: string | undefined
  endsAt: Date
  /** Null: the payment does not set the end of updates. */
  updatesUntil: Date | null
}

export interface CancelledEffect extends EffectOf<'cancelled'> {
  /** When the purchase ends, whatever its renewals gave. Absent or null: when it was cancelled. */
  endsAt?: Date | null
}

export type LaterEffect =
  RenewedEffect | CancelledEffect | EffectOf<Exclude<EffectKind, 'paid' | 'renewed' | 'cancelled'>>

interface Meaning {
  /** The purchase has the latest and the first time of such effects in these columns. */
  latest?: 'renewed_at' | 'failed_at' | 'partially_refunded_at' | 'inquiry_at' | 'inquiry_closed_at'
  /** A renewal after the time in this column ends it. */
  since?: 'failed_since' | 'partially_refunded_since'
  first?: 'first_inquiry_at'
  /** It ends the purchase for this reason. */
  ends?: 'money_returned' | 'cancelled'
  /** Whether the processor will charge the purchase again. */
  renews?: boolean
}

/** The meaning of each effect for its purchase. The consequences for a licence are in `governing-purchase.ts`. */
export const effectMeanings: Record<LaterEffect['kind'], Meaning> = {
  renewed: { latest: 'renewed_at' },
  payment_failed: { latest: 'failed_at', since: 'failed_since' },
  inquiry_opened: { latest: 'inquiry_at', first: 'first_inquiry_at' },
  inquiry_closed: { latest: 'inquiry_closed_at' },
  partially_refunded: { latest: 'partially_refunded_at', since: 'partially_refunded_since' },
  refunded: { ends: 'money_returned' },
  charged_back: { ends: 'money_returned' },
  cancelled: { ends: 'cancelled' },
  renewal_stopped: { renews: false },
  renewal_resumed: { renews: true },
  order_corrected: {},
}

/** Something that happened to a purchase, after its request was checked. */
export type Effect = PaidEffect | LaterEffect

export function planIdOf(effect: Effect): string | undefined {
  return 'planId' in effect ? effect.planId : undefined
}

/** Stands for a request that breaks a rule. It is not applied. */
export function unreadable({ accountId, applicationId, purchaseRef, cause }: PurchaseEffect): Effect {
  const never = new Date(0)
  const kind = 'order_corrected' as const
  return { accountId, applicationId, purchaseRef, kind, cause, at: never, orderedAt: never }
}

/** @throws ServiceError `validation_failed` */
export function readEffect(request: PurchaseEffect): Effect {
  const { accountId, applicationId, purchaseRef, kind, cause, planId, externalRef } = request
  checkReference('/purchase_ref', purchaseRef)
  checkReference('/cause', cause)
  if (!request.at) throw invalid('/at', 'is required')
  const at = timestampDate(request.at)
  const orderedAt = request.orderedAt ? timestampDate(request.orderedAt) : at
  const endsAt = request.endsAt ? timestampDate(request.endsAt) : null
  const updatesUntil = request.updatesUntil ? timestampDate(request.updatesUntil) : null
  const about = { accountId, applicationId, purchaseRef, cause, at, orderedAt }
  if (!isMember('purchaseEffect', kind)) {
    throw invalid('/kind', `must be one of ${closedSets.purchaseEffect.join(', ')}`)
  }
  switch (kind) {
    case 'paid': {
      checkReference('/external_ref', externalRef ?? '')
      const metadata = checkMetadata(request.metadata)
      const bought = { planId: checkPlanId(planId ?? ''), externalRef: externalRef!, endsAt, metadata }
      return { ...about, kind, ...bought, updatesUntil, renews: request.renews ?? false }
    }
    case 'renewed': {
      if (!endsAt) throw invalid('/ends_at', 'is required')
      const newPlanId = planId === undefined ? undefined : checkPlanId(planId)
      return { ...about, kind, planId: newPlanId, endsAt, updatesUntil }
    }
    case 'cancelled':
      return { ...about, kind, endsAt }
    default:
      return { ...about, kind, since: request.since ? timestampDate(request.since) : null }
  }
}

function checkPlanId(planId: string): string {
  if (!isId('pln', planId)) throw invalid('/plan_id', `there is no plan ${planId} in this application`)
  return planId
}
