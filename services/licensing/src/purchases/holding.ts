import type { StandingRow } from '../lifecycle/licence-queries.ts'
import { held } from '../lifecycle/licence.ts'
import type { PlanRow } from '../plans/plan-queries.ts'
import { basisOf } from './basis.ts'
import type { Basis } from './basis.ts'
import type { CauseKind, Effect } from './effect.ts'
import { orderOf } from './purchase.ts'
import type { Fact, Purchase } from './purchase.ts'

export type HeldLicence = StandingRow & {
  snapshot_id: string
  rests_on: string | null
  reactivated_at: Date | null
}

/** A licence, locked, with all that it may rest on. */
export interface Holding {
  licence: HeldLicence
  purchases: Purchase[]
  facts: Fact[]
}

export const isHeld = ({ licence }: Holding): boolean => held.includes(licence.status)

export function purchaseOf(holding: Holding, ref: string): Purchase | undefined {
  return holding.purchases.find((purchase) => purchase.purchase_ref === ref)
}

/** The purchase that the licence rests on, as it has last been written. */
export function restsOn(holding: Holding): Purchase | undefined {
  const { licence, purchases } = holding
  return purchases.find((purchase) => purchase.purchase_ref === licence.rests_on) ?? purchases[0]
}

/** What a licence was issued or imported with, as a purchase: its row is made when another lands on it. */
export function baseOf(licence: HeldLicence): Purchase {
  return {
    application_id: licence.application_id,
    purchase_ref: licence.id,
    account_id: licence.account_id,
    licence_id: licence.id,
    ordered_at: null,
    ...termsOf(licence),
    fell_at: null,
    given_back: false,
  }
}

type Terms = Pick<HeldLicence, 'plan_id' | 'snapshot_id' | 'expires_on'>

/** Terms on which a purchase lands. */
export function termsOf({ plan_id, snapshot_id, expires_on: ends_at }: Terms) {
  return {
    plan_id,
    snapshot_id,
    ends_at,
    landed_plan_id: plan_id,
    landed_snapshot_id: snapshot_id,
    landed_ends_at: ends_at,
  }
}

/** What the licence rests on at a time; it has at least one purchase. */
export function basisAt({ licence, purchases, facts }: Holding, now: Date): Basis {
  return basisOf(purchases, facts, licence.reactivated_at, now.getTime())
}

/** After all that is known to have happened: when something is taken to have happened of which only the news is known. */
export function afterAll({ licence, purchases, facts }: Holding, now: Date): Date {
  const known = [
    licence.reactivated_at?.getTime() ?? 0,
    ...facts.map(({ at }) => at.getTime()),
    ...purchases.flatMap((purchase) => [orderOf(purchase), purchase.fell_at?.getTime() ?? 0]),
  ]
  return new Date(Math.max(now.getTime(), ...known.map((at) => at + 1)))
}

/** Adds what happened to what is known of the purchase; `plan` is that of the effect. */
export function record(
  { facts }: Holding,
  purchase: Purchase,
  { what, cause, at, orderedAt }: Effect & { what: { kind: CauseKind } },
  plan: PlanRow | undefined,
): Fact {
  purchase.ordered_at = orderedAt
  const fact: Fact = {
    purchase_ref: purchase.purchase_ref,
    kind: what.kind,
    cause,
    at,
    ends_at: what.kind === 'renewed' ? what.endsAt : null,
    plan_id: plan?.id ?? null,
    snapshot_id: plan?.snapshot_id ?? null,
  }
  facts.push(fact)
  if (what.kind === 'givenBack' || what.kind === 'cancelled') {
    if (!purchase.fell_at || at < purchase.fell_at) purchase.fell_at = at
    purchase.given_back ||= what.kind === 'givenBack'
  }
  renew(purchase, facts)
  return fact
}

/** The end and the plan that its renewals have brought a purchase, in whatever order they became known. */
function renew(purchase: Purchase, facts: readonly Fact[]): void {
  const renewals = facts
    .filter(({ purchase_ref, kind }) => purchase_ref === purchase.purchase_ref && kind === 'renewed')
    // A purchase that has fallen stays as it was.
    .filter(({ at }) => !purchase.fell_at || at <= purchase.fell_at)
    .sort((a, b) => a.at.getTime() - b.at.getTime() || (a.cause < b.cause ? -1 : 1))
  let [end, planId, snapshotId] = [
    purchase.landed_ends_at,
    purchase.landed_plan_id,
    purchase.landed_snapshot_id,
  ]
  for (const { ends_at, plan_id, snapshot_id } of renewals) {
    // None moves the end back.
    if (end && ends_at && end < ends_at) end = ends_at
    if (plan_id === null || snapshot_id === null || plan_id === planId) continue
    ;[planId, snapshotId] = [plan_id, snapshot_id]
  }
  Object.assign(purchase, { ends_at: end, plan_id: planId, snapshot_id: snapshotId })
}
