import type { Cause, Circumstances } from '../lifecycle/licence.ts'
import type { By } from '../lifecycle/licence-queries.ts'
import type { PlanRow } from '../plans/plan-queries.ts'
import type { Basis, Calls } from './basis.ts'
import { bring } from './changes.ts'
import type { Changes } from './changes.ts'
import type { EffectKind } from './effect.ts'
import { isHeld } from './holding.ts'
import type { HeldLicence, Holding } from './holding.ts'
import { isLater } from './purchase.ts'
import type { Purchase } from './purchase.ts'

/** What made the difference between two states of what a licence's purchases call for. */
export interface News {
  /** `time`: an end has passed. */
  kind: EffectKind | 'time'
  purchase?: Purchase
  /** What the licence rested on as it was last written. */
  rested: Purchase | undefined
  before: Basis
  after: Basis
}

/** Brings a licence to rest on what it should rest on, and to the status that its purchases call for. */
export function settleHolding(
  changes: Changes,
  holding: Holding,
  plans: ReadonlyMap<string, PlanRow>,
  by: By,
  news: News,
): void {
  const { licence } = holding
  const { current, calls, stands } = news.after
  if (licence.rests_on !== current.purchase_ref) {
    licence.rests_on = current.purchase_ref
    changes.licences.set(licence.id, licence)
  }
  if (!isHeld(holding)) return
  const given = {
    plan_id: current.plan_id,
    snapshot_id: current.snapshot_id,
    expires_on: current.ends_at,
  }
  const isPast = hasPassed(news)
  const rebased = news.rested !== current || isPast
  const isRenewal = news.kind === 'renewed' && news.purchase === current
  const circumstances: Circumstances = {
    plan: plans.get(current.plan_id)!.status,
    planDiffers: licence.plan_id !== given.plan_id,
    endMoves: licence.expires_on?.getTime() !== given.expires_on?.getTime(),
    stands,
    clears: calls === 'active' && (rebased || isRenewal || news.before.calls !== 'active'),
    overtaken: isOvertaken(news, licence),
    lifts: (isPast || news.before.calls === 'dispute_inquiry') && calls !== 'dispute_inquiry',
  }
  const causes = causesOf(news, rebased)
  if (causes.length > 0) bring(changes, holding, { causes, circumstances, by, given })
}

/** Whether it had ended before it became known: the licence rested on it, and again on what it rests on now. */
function hasPassed({ kind, purchase, after: { current } }: News): boolean {
  return kind === 'landed' && purchase !== undefined && isLater(purchase, current)
}

function isOvertaken({ before, after }: News, { status, status_reason }: HeldLicence): boolean {
  if (status === 'expired' && !before.stands && after.stands) return true
  const isAsBefore = before.calls === (status === 'suspended' ? status_reason : status)
  return isAsBefore && before.calls !== after.calls
}

const takingOver: Cause[] = ['purchaseTakesOver', 'cameToRetiredPlan', 'tookOverOnRetiredPlan']
const renewing: Cause[] = ['renewed', 'planFollowsPrice', 'paymentsMadeGood', 'cameToRetiredPlan']

function causesOf(news: News, rebased: boolean): Cause[] {
  const { kind, purchase, before, after } = news
  const own = purchase === after.current
  const toNew = kind === 'landed' && rebased && !own ? takingOver.slice(1) : []
  const same = before.calls === after.calls && before.stands === after.stands
  const changed = same ? [] : called(news)
  if (kind === 'landed') {
    return ['purchaseLanded', ...toNew, ...changed]
  }
  if (rebased) return [...takingOver, ...called(news)]
  if (kind === 'renewed' && own) return [...renewing, ...changed]
  const asks = own && calledBy[kind] === after.calls
  return before.calls === after.calls && !asks ? [] : called(news, true)
}

/** What calls for a status by itself, also where it had been called for before and a person has undone it. */
const calledBy: Partial<Record<News['kind'], Calls>> = {
  paymentsFailed: 'payment_failed',
  inquiryOpened: 'dispute_inquiry',
  inquiryClosed: 'active',
  partlyRefunded: 'downgraded',
  givenBack: 'revoked',
  cancelled: 'expired',
}

/** `alone`: nothing else says that the licence may be active. */
function called({ after: { calls }, before }: News, alone = false): Cause[] {
  switch (calls) {
    case 'active':
      if (!alone) return []
      return before.calls === 'active' || before.calls === 'dispute_inquiry'
        ? ['inquiryClosed']
        : ['paymentsMadeGood']
    case 'downgraded':
      return ['partlyRefunded']
    case 'payment_failed':
      return ['paymentsFailed']
    case 'dispute_inquiry':
      return ['inquiryOpened']
    case 'revoked':
      return ['refunded']
    case 'expired':
      return ['subscriptionCancelled']
  }
}
