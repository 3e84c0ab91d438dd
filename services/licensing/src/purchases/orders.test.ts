import { newId } from '@licensing/database/ids'
import { isFull } from '@licensing/test-support/drawn'
import { array, assert, nat, option, property } from 'fast-check'
import { expect, test } from 'vitest'
import { expirable, statusOf } from '../lifecycle/licence.ts'
import type { PlanRow } from '../plans/plan-queries.ts'
import { day, effectsOf, mayRevokeEarly, orderBy, ordersOf, stories } from '../../test/purchase-stories.ts'
import { reconcileLicence } from './reconcile-licence.ts'
import { addPurchase, applyLaterEffect, createLicence } from './apply-effect.ts'
import type { Batch } from './apply-effect.ts'
import { noChanges } from './changes.ts'
import type { Effect } from './effect.ts'
import {
  governingAt,
  takesPayments,
  purchaseOf,
  formerGoverning,
  withoutPurchases,
} from './purchased-licence.ts'
import type { PurchasedLicence } from './purchased-licence.ts'

const numRuns = Number(process.env['ORDER_RUNS'] ?? (isFull ? 400 : 40))

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

/**
 * The day on which a licence ends that was issued before all purchases; null: there is none. It can be the day of a
 * purchase.
 */
const issues = option(nat({ max: 140 }))

function issuedUntil(on: number | null): PurchasedLicence[] {
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
  // Half of the issued licences have a limit.
  const updatesUntil = on % 2 === 0 ? null : day(on, now)
  const metadata = { n10: 'issued', n99: 'issued' }
  const bought = { planId: planId!, endsAt, metadata, updatesUntil, renews: false }
  const paid = { ...effect, kind: 'paid' as const, ...bought }
  const { licence } = createLicence({ changes: noChanges(now), plans }, paid)
  return [withoutPurchases({ ...licence, governed_by: null })]
}

/** The licences of a customer after these effects, in memory, and a sweep. */
function licencesAfter(
  order: readonly Effect[],
  swept: 'at the end' | 'always',
  issuedOn: number | null,
): PurchasedLicence[] {
  const batch: Batch = { changes: noChanges(now), plans }
  const licences = issuedUntil(issuedOn)
  for (const effect of order) {
    const own = licences.find((licence) => purchaseOf(licence, effect.purchaseRef))
    const payable = licences.findLast(takesPayments)
    if (effect.kind !== 'paid') applyLaterEffect(batch, own!, effect)
    else if (own) continue
    else if (payable) addPurchase(batch, payable, effect)
    else licences.push(createLicence(batch, effect))
    if (swept === 'always') for (const licence of licences) sweep(batch, licence)
  }
  for (const licence of licences) sweep(batch, licence)
  return licences
}

function sweep({ changes }: Batch, purchased: PurchasedLicence): void {
  const { licence } = purchased
  const isPast = licence.expires_on && licence.expires_on <= now
  if (!isPast || !expirable.includes(licence.status)) return
  if (purchased.purchases.length > 0 && governingAt(purchased, now).isValid) {
    const change = { kind: 'ended' as const, former: formerGoverning(purchased) }
    reconcileLicence(changes, purchased, plans, { actor: 'sweep' }, change)
  } else Object.assign(licence, statusOf({ ...licence, end: licence.expires_on, now }))
}

/** docs/guides/payments.md, "Events in another order": the result may differ if a revocation was sent before an event that would have prevented it became known. */
function isExempt(order: readonly Effect[], licences: PurchasedLicence[]): boolean {
  return mayRevokeEarly(order) && licences.some(({ licence }) => licence.status === 'revoked')
}

function shown(licences: PurchasedLicence[]) {
  const last = licences.at(-1)!
  const { plan_id, snapshot_id, expires_on, status, status_reason } = last.licence
  // An effect that becomes known after the revocation changes nothing.
  if (status === 'revoked') return { status }
  const renews = formerGoverning(last)?.renews
  return { plan_id, snapshot_id, expires_on, status, status_reason, renews }
}

/** After a revocation a purchase has another licence, which does not include the updates and metadata of the former one. */
function paidFieldsOf(licences: PurchasedLicence[]) {
  const [only, another] = licences.map(({ licence }) => licence)
  if (another || only!.status === 'revoked') return 'of several licences'
  return { updates_until: only!.updates_until, metadata: only!.metadata }
}

function expectSame(one: PurchasedLicence[], other: PurchasedLicence[]): void {
  expect(shown(one)).toEqual(shown(other))
  if (one.length === other.length) expect(paidFieldsOf(one)).toEqual(paidFieldsOf(other))
}

interface Step {
  purchase: string
  kind: 'paid' | 'renewed' | 'refunded' | 'cancelled'
  on: number
  /** The day until which the payment includes updates. */
  until?: number
}
const paid = (purchase: string, on: number, until?: number): Step => {
  return { purchase, kind: 'paid', on, ...(until !== undefined && { until }) }
}
const renewed = (purchase: string, on: number, until?: number): Step => {
  return { ...paid(purchase, on, until), kind: 'renewed' }
}

/** Events in order of time, and the day until which the licence includes updates after them. */
const updates: [title: string, steps: Step[], until: number | undefined][] = [
  ['a payment that says nothing', [paid('a', 1)], undefined],
  ['a payment after one that says nothing', [paid('a', 1), paid('b', 2, 100)], undefined],
  ['a payment that says nothing after another', [paid('a', 1, 100), paid('b', 2)], 100],
  ['a later payment', [paid('a', 1, 100), paid('b', 2, 200)], 200],
  ['a later payment that includes less', [paid('a', 1, 200), paid('b', 2, 100)], 200],
  ['a renewal', [paid('a', 1, 100), renewed('a', 5, 130)], 130],
  ['a renewal that says nothing', [paid('a', 1, 100), renewed('a', 5)], 100],
  ['a renewal after a payment that says nothing', [paid('a', 1), renewed('a', 5, 130)], undefined],
  ['a renewal of a replaced purchase', [paid('a', 1, 100), paid('b', 2, 110), renewed('a', 5, 130)], 130],
  [
    'a refund of the payment that included most',
    [paid('a', 1, 100), paid('b', 2, 200), { purchase: 'b', kind: 'refunded', on: 3 }],
    200,
  ],
  [
    'a renewal that was paid before its subscription ended',
    [paid('a', 1, 100), renewed('a', 5, 130), { purchase: 'a', kind: 'cancelled', on: 6 }],
    130,
  ],
  [
    'a renewal after its subscription ended',
    [paid('a', 1, 100), { purchase: 'a', kind: 'cancelled', on: 5 }, renewed('a', 6, 130)],
    100,
  ],
  [
    'a renewal after its subscription ended, of a licence with a purchase that includes more',
    [paid('a', 1, 100), paid('b', 2, 120), { purchase: 'a', kind: 'cancelled', on: 5 }, renewed('a', 6, 130)],
    120,
  ],
  [
    'a renewal after its purchase was refunded',
    [paid('a', 1, 100), paid('b', 2), { purchase: 'a', kind: 'refunded', on: 5 }, renewed('a', 6, 130)],
    100,
  ],
]

test.each(updates)('updates_until after %s is the same in every order', (_, steps, until) => {
  const effects = steps.map((step) => effectOf(step, steps))
  for (const order of ordersOf(effects)) {
    const licences = licencesAfter(order, 'at the end', null)
    if (isExempt(order, licences)) continue
    expect(licences.at(-1)!.licence.updates_until).toEqual(until === undefined ? null : day(until, now))
  }
})

function effectOf({ purchase, kind, on, until }: Step, steps: Step[]): Effect {
  const orderedAt = day(steps.find((one) => one.purchase === purchase)!.on, now)
  const { accountId, applicationId, externalRef } = customer
  const by = {
    accountId,
    applicationId,
    purchaseRef: purchase,
    cause: `${kind} ${on}`,
    at: day(on, now),
    orderedAt,
  }
  const updatesUntil = until === undefined ? null : day(until, now)
  const [planId] = customer.plans
  if (kind === 'paid') {
    return {
      ...by,
      kind,
      planId: planId!,
      externalRef,
      endsAt: null,
      metadata: {},
      updatesUntil,
      renews: true,
    }
  }
  if (kind === 'renewed') return { ...by, kind, endsAt: day(160, now), planId: undefined, updatesUntil }
  return { ...by, kind }
}

test('short histories: in every order in which effects can become known, the licence is the same as in order of time', () => {
  let compared = 0
  const inEveryOrder = property(stories, issues, (story, issued) => {
    const effects = effectsOf(story, customer).slice(0, 6)
    const known = effects.filter(({ purchaseRef }) =>
      effects.some((one) => one.purchaseRef === purchaseRef && one.kind === 'paid'),
    )
    const inTime = licencesAfter(known, 'at the end', issued)
    for (const order of ordersOf(known)) {
      const inOrder = licencesAfter(order, 'at the end', issued)
      if (isExempt(order, inOrder)) continue
      expectSame(inOrder, inTime)
      compared += 1
    }
  })
  assert(inEveryOrder, { numRuns })
  expect(compared).toBeGreaterThan(numRuns)
})

test('longer histories: in any order, with repetitions, swept in between or not, the licence is the same as in order of time', () => {
  let compared = 0
  const places = array(nat({ max: 1_000 }), { minLength: 20, maxLength: 20 })
  const inAnyOrder = property(stories, issues, places, places, (story, issued, drawn, again) => {
    const effects = effectsOf(story, customer)
    const order = orderBy(effects, drawn)
    const repeated = order.flatMap((effect, at) => [effect, order[again[at % 20]! % (at + 1)]!])
    const inTime = licencesAfter(effects, 'at the end', issued)
    for (const swept of ['at the end', 'always'] as const) {
      const inOrder = licencesAfter(repeated, swept, issued)
      if (isExempt(order, inOrder)) return
      expectSame(inOrder, inTime)
    }
    compared += 1
  })
  assert(inAnyOrder, { numRuns: numRuns * 5 })
  expect(compared).toBeGreaterThan(numRuns)
})
