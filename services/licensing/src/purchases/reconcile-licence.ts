import { lifecycle } from '../lifecycle/licence.ts'
import type { Cause, TransitionConditions, Transition } from '../lifecycle/licence.ts'
import type { PlanRow } from '../plans/plan-queries.ts'
import type { Governing, DecisiveEffect } from './governing-purchase.ts'
import { changeLicence } from './changes.ts'
import type { By, Changes } from './changes.ts'
import type { EffectKind } from './effect.ts'
import { isLater } from './purchase.ts'
import type { Purchase } from './purchase.ts'
import { takesPayments } from './purchased-licence.ts'
import type { LockedLicence, PurchasedLicence } from './purchased-licence.ts'

/** An effect on a purchase, and what governs the licence before and after it. */
export interface GoverningChange {
  /** `ended`: the end of a purchase has passed. */
  kind: EffectKind | 'ended'
  purchase?: Purchase
  /** The purchase that governed the licence when it was last written. */
  former: Purchase | undefined
  before: Governing
  after: Governing
}

/** Gives a licence the plan and the end of the purchase that governs it, and the status that its purchases require. */
export function reconcileLicence(
  changes: Changes,
  purchased: PurchasedLicence,
  plans: ReadonlyMap<string, PlanRow>,
  by: By,
  change: GoverningChange,
): void {
  const { licence } = purchased
  const { current, decisive, isValid } = change.after
  if (licence.governed_by !== current.purchase_ref) {
    licence.governed_by = current.purchase_ref
    changes.licences.set(licence.id, licence)
  }
  if (!takesPayments(purchased)) return
  const terms = {
    plan_id: current.plan_id,
    snapshot_id: current.snapshot_id,
    expires_on: current.ends_at,
  }
  const isReplaced = change.former !== current || isKnownTooLate(change)
  const isRenewal = change.kind === 'renewed' && change.purchase === current
  const conditions: TransitionConditions = {
    plan: plans.get(current.plan_id)!.status,
    planDiffers: licence.plan_id !== terms.plan_id,
    endMoves: licence.expires_on?.getTime() !== terms.expires_on?.getTime(),
    valid: isValid,
    allowsActive: decisive === 'paid' && (isReplaced || isRenewal || change.before.decisive !== 'paid'),
    outdated: isStatusOutdated(change, licence),
  }
  const causes = causesOf(change, isReplaced)
  if (causes.length > 0) changeLicence(changes, purchased, { causes, conditions, by, terms })
}

/** Whether a purchase became known only after its end: in the meantime it should have governed the licence. */
function isKnownTooLate({ kind, purchase, after: { current } }: GoverningChange): boolean {
  return kind === 'paid' && purchase !== undefined && isLater(purchase, current)
}

/**
 * Whether the licence has the status that its purchases required before a late effect changed the required status.
 */
function isStatusOutdated(
  { before, after }: GoverningChange,
  { status, status_reason }: LockedLicence,
): boolean {
  if (status === 'expired' && !before.isValid && after.isValid) return true
  const isAsBefore = resultOf(before.decisive) === (status === 'suspended' ? status_reason : status)
  return isAsBefore && before.decisive !== after.decisive
}

/** The reason of the suspension that an effect leads to, or else the status. */
function resultOf(decisive: DecisiveEffect): string {
  const { to, reason }: Transition = lifecycle[decisive][0]
  return reason ?? to
}

const replacing: Cause[] = ['purchase_replaced', 'moved_to_retired_plan', 'replaced_on_retired_plan']
const renewing: Cause[] = ['renewed', 'price_changed', 'payment_recovered', 'moved_to_retired_plan']

/** The causes that change the licence, in this order. */
function causesOf(change: GoverningChange, isReplaced: boolean): Cause[] {
  const { kind, purchase, before, after } = change
  const isCurrent = purchase === after.current
  const isSame = before.decisive === after.decisive
  const preventing = after.decisive === 'paid' ? [] : [after.decisive]
  const changed = isSame && before.isValid === after.isValid ? [] : preventing
  if (kind === 'paid') {
    return ['paid', ...(isReplaced && !isCurrent ? replacing.slice(1) : []), ...changed]
  }
  if (isReplaced) return [...replacing, ...preventing]
  if (kind === 'renewed' && isCurrent) return [...renewing, ...changed]
  // An effect on the current purchase applies even if it changes nothing here: the vendor may have changed the status
  // since.
  const isDecisive = kind === 'inquiry_closed' ? after.decisive === 'paid' : kind === after.decisive
  if (isSame && !(isCurrent && isDecisive)) return []
  return after.decisive === 'paid' ? [recoveryFrom(before.decisive)] : [after.decisive]
}

function recoveryFrom(decisive: DecisiveEffect): Cause {
  return decisive === 'paid' || decisive === 'inquiry_opened' ? 'inquiry_closed' : 'payment_recovered'
}
