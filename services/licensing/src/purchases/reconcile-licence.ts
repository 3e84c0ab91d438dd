import { leads, stateAfter } from '../lifecycle/licence.ts'
import type { Lead } from '../lifecycle/licence.ts'
import type { PlanRow } from '../plans/plan-queries.ts'
import { licenceFields } from '../lifecycle/licence-fields.ts'
import { changeLicence } from './changes.ts'
import type { By, Changes } from './changes.ts'
import type { EffectKind } from './effect.ts'
import type { Purchase } from './purchase.ts'
import { governingAt, takesPayments } from './purchased-licence.ts'
import type { PurchasedLicence } from './purchased-licence.ts'

export interface PurchasesChange {
  /** `ended`: the end of a purchase has passed. */
  kind: EffectKind | 'ended'
  /** The purchase that governed the licence when it was last written. */
  former: Purchase | undefined
}

/** Gives a licence the plan and the end of the purchase that governs it, and the status that its purchases call for. */
export function reconcileLicence(
  changes: Changes,
  purchased: PurchasedLicence,
  plans: ReadonlyMap<string, PlanRow>,
  by: By,
  { kind, former }: PurchasesChange,
): void {
  const { licence } = purchased
  const { current, state: purchase } = governingAt(purchased, changes.now)
  if (licence.governed_by !== current.purchase_ref) {
    licence.governed_by = current.purchase_ref
    changes.licences.set(licence.id, licence)
  }
  if (!takesPayments(purchased)) return
  const { plan_id, snapshot_id, ends_at: end } = current
  const isReplaced = former !== current
  const plan = plans.get(plan_id)!.status
  const state = stateAfter(licence, { purchase, end, now: changes.now, plan, isReplaced })
  const planDiffers = licence.plan_id !== plan_id
  const endMoves = licence.expires_on?.getTime() !== end?.getTime()
  const leading = (): Lead[] => {
    if (kind === 'paid' || (isReplaced && planDiffers)) return [leads.sold]
    if (isReplaced) {
      const isReactivated = state.status === 'active' && licence.status !== 'active'
      return endMoves && !isReactivated ? [leads.changed] : []
    }
    if (kind === 'cancelled') return endMoves && state.status === licence.status ? [leads.changed] : []
    if (kind !== 'renewed') return []
    const isSame = state.hold === licence.hold && state.purchase === licence.purchase
    return [
      ...(endMoves ? [isSame ? leads.returned : leads.renewed] : []),
      ...(planDiffers ? [leads.repriced] : []),
    ]
  }
  const after = { ...state, plan_id, snapshot_id, expires_on: end }
  const moved = licenceFields.changeOf('expires_on', licence, { ...licence, ...after })
  changeLicence(changes, purchased, after, leading(), by, { expires_on: moved })
}
