import { newId } from '@licensing/database/ids'
import { array, assert, nat, option, property } from 'fast-check'
import { expect, test } from 'vitest'
import { expirable, follow } from '../lifecycle/licence.ts'
import type { PlanRow } from '../plans/plan-queries.ts'
import { day, effectsOf, mayRevokeEarly, orderBy, ordersOf, stories } from '../../test/purchase-stories.ts'
import { applyTo, landOn, mintFor } from './apply-effect.ts'
import type { Workplace } from './apply-effect.ts'
import { noChanges } from './changes.ts'
import type { Effect } from './effect.ts'
import { basisAt, isHeld, purchaseOf, restsOn } from './holding.ts'
import type { Holding } from './holding.ts'
import { settleHolding } from './settle-holding.ts'

const numRuns = Number(process.env['ORDER_RUNS'] ?? 400)

const now = new Date('2026-06-01T00:00:00Z')
const customer = {
  accountId: newId('acct'),
  applicationId: newId('app'),
  externalRef: 'customer',
  plans: [newId('pln'), newId('pln'), newId('pln')],
  now,
}
const plans = new Map(
  customer.plans.map((id): [string, PlanRow] => [
    id,
    {
      id,
      account_id: customer.accountId,
      application_id: customer.applicationId,
      status: 'active',
      snapshot_id: `of ${id}`,
    },
  ]),
)

/** The day until which the customer was issued a licence before all purchases, if so: at times one of a purchase. */
const issues = option(nat({ max: 140 }))

function issuedUntil(on: number | null): Holding[] {
  if (on === null) return []
  const [planId] = customer.plans
  const effect = {
    ...customer,
    purchaseRef: 'issued',
    cause: 'issued',
    at: day(0, now),
    orderedAt: day(0, now),
  }
  const endsAt = new Date(day(on, now).getTime() + 400)
  const landed = { kind: 'landed' as const, planId: planId!, externalRef: customer.externalRef, endsAt }
  const { licence } = mintFor({ changes: noChanges(now), plans }, { ...effect, what: landed }, landed)
  return [{ licence: { ...licence, rests_on: null }, purchases: [], facts: [] }]
}

/** The licences of a customer after these effects, in memory, and a sweep. */
function licencesAfter(
  order: readonly Effect[],
  swept: 'at the end' | 'always',
  issuedOn: number | null,
): Holding[] {
  const place: Workplace = { changes: noChanges(now), plans }
  const holdings = issuedUntil(issuedOn)
  for (const effect of order) {
    const { what } = effect
    const landed = holdings.find((holding) => purchaseOf(holding, effect.purchaseRef))
    const held = holdings.findLast(isHeld)
    if (landed) applyTo(place, landed, effect)
    else if (what.kind !== 'landed') throw new Error('a purchase lands before all else')
    else if (held) landOn(place, held, effect, what)
    else holdings.push(mintFor(place, effect, what))
    if (swept === 'always') for (const holding of holdings) sweep(place, holding)
  }
  for (const holding of holdings) sweep(place, holding)
  return holdings
}

function sweep({ changes }: Workplace, holding: Holding): void {
  const { licence } = holding
  const isPast = licence.expires_on && licence.expires_on <= now
  if (!isPast || !expirable.includes(licence.status)) return
  if (holding.purchases.length === 0) {
    Object.assign(licence, follow(['expiryPassed'], licence, {}).standing)
    return
  }
  const after = basisAt(holding, now)
  if (after.stands) {
    const news = { kind: 'time' as const, rested: restsOn(holding), before: after, after }
    settleHolding(changes, holding, plans, { actor: 'sweep' }, news)
  } else Object.assign(licence, follow(['expiryPassed'], licence, {}).standing)
}

/** Decisions 7: it may differ where a revocation had gone out before what would have prevented it was known. */
function isExempt(order: readonly Effect[], holdings: Holding[]): boolean {
  return mayRevokeEarly(order) && holdings.some(({ licence }) => licence.status === 'revoked')
}

function shown(holdings: Holding[]) {
  const { plan_id, snapshot_id, expires_on, status, status_reason } = holdings.at(-1)!.licence
  // News that comes when it has been revoked changes it no more.
  return status === 'revoked' ? { status } : { plan_id, snapshot_id, expires_on, status, status_reason }
}

test('short histories: in every order in which they can become known, the licence ends as in order of time', () => {
  let compared = 0
  const inEveryOrder = property(stories, issues, (story, issued) => {
    const effects = effectsOf(story, customer).slice(0, 6)
    const known = effects.filter(({ purchaseRef }) =>
      effects.some((one) => one.purchaseRef === purchaseRef && one.what.kind === 'landed'),
    )
    const inTime = shown(licencesAfter(known, 'at the end', issued))
    for (const order of ordersOf(known)) {
      const inOrder = licencesAfter(order, 'at the end', issued)
      if (isExempt(order, inOrder)) continue
      expect(shown(inOrder)).toEqual(inTime)
      compared += 1
    }
  })
  assert(inEveryOrder, { numRuns })
  expect(compared).toBeGreaterThan(numRuns)
})

test('longer histories: in any order, with repetitions, swept in between or not, it ends as in order of time', () => {
  let compared = 0
  const places = array(nat({ max: 1_000 }), { minLength: 20, maxLength: 20 })
  const inAnyOrder = property(stories, issues, places, places, (story, issued, drawn, again) => {
    const effects = effectsOf(story, customer)
    const order = orderBy(effects, drawn)
    const repeated = order.flatMap((effect, at) => [effect, order[again[at % 20]! % (at + 1)]!])
    const inTime = shown(licencesAfter(effects, 'at the end', issued))
    for (const swept of ['at the end', 'always'] as const) {
      const inOrder = licencesAfter(repeated, swept, issued)
      if (isExempt(order, inOrder)) return
      expect(shown(inOrder)).toEqual(inTime)
    }
    compared += 1
  })
  assert(inAnyOrder, { numRuns: numRuns * 5 })
  expect(compared).toBeGreaterThan(numRuns)
})
