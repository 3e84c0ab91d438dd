import { newId } from '@licensing/database/ids'
import {
  array,
  constantFrom,
  dictionary,
  integer,
  nat,
  option,
  record,
  shuffledSubarray,
  tuple,
} from 'fast-check'
import type { Arbitrary } from 'fast-check'
import type { Metadata } from '@licensing/proto/metadata'
import type { Effect } from '../src/purchases/effect.ts'

/** Histories of one customer's purchases, by the processor's clock, and the orders in which they may become known. */

const dayMs = 86_400_000
/** The processor's clock: days counted from some time ago. */
export const day = (days: number, now: Date) => new Date(now.getTime() + (days - 100) * dayMs)

const effectKinds = [
  'renewed',
  'renewed on another plan',
  'payment_failed',
  'inquiry_opened',
  'inquiry_closed',
  'partially_refunded',
  'refunded',
  'charged_back',
  'cancelled',
  'cancelled with an end',
  'renewal_stopped',
  'renewal_resumed',
] as const
type EffectKind = (typeof effectKinds)[number]

export interface StoryPurchase {
  plan: number
  orderedOn: number
  endsOn: number | null
  /** How many days of updates its price includes. */
  updatesFor: number | null
  metadata: Metadata
  effects: [what: EffectKind, on: number][]
}

/** The entries of two or three such payments do not all fit into a licence. */
const metadata: Arbitrary<Metadata> = dictionary(
  integer({ min: 10, max: 70 }).map((at) => `n${at}`),
  constantFrom('a', 'b', 'c'),
  { maxKeys: 40, noNullPrototype: true },
)

/** Days are distinct, so that the order of the events is unambiguous. Today is day 100. */
export const stories: Arbitrary<StoryPurchase[]> = tuple(
  array(
    record({
      plan: nat({ max: 2 }),
      endsAfter: option(integer({ min: 3, max: 150 })),
      updatesFor: option(integer({ min: 1, max: 200 })),
      metadata,
      effects: array(constantFrom(...effectKinds), { maxLength: 3 }),
    }),
    { minLength: 1, maxLength: 4 },
  ),
  shuffledSubarray(
    Array.from({ length: 40 }, (_, at) => 1 + at * 2),
    { minLength: 40 },
  ),
).map(([purchases, days]) => {
  let next = 0
  return purchases.map(({ plan, endsAfter, updatesFor, metadata: brought, effects }) => {
    const own = days.slice(next, next + 1 + effects.length).sort((a, b) => a - b)
    next += own.length
    const [orderedOn = 0, ...later] = own
    // A renewal or a cancellation comes before the end that it moves. If it came later, a revocation that it prevents could
    // be sent first.
    const moving = later.filter((_, at) => /^renewed|with an end$/.test(effects[at]!))
    return {
      plan,
      orderedOn,
      updatesFor,
      metadata: brought,
      endsOn: endsAfter === null ? null : Math.max(orderedOn + endsAfter, ...moving.map((on) => on + 1)),
      effects: effects.map((what, at) => [what, later[at]!] as [EffectKind, number]),
    }
  })
})

export interface Customer {
  accountId: string
  applicationId: string
  externalRef: string
  plans: readonly string[]
  now: Date
}

/** The effects of a history, in order of time. */
export function effectsOf(story: StoryPurchase[], customer: Customer): Effect[] {
  const { accountId, applicationId, externalRef, now } = customer
  const run = newId('evt')
  const planOf = (plan: number) => customer.plans[plan % customer.plans.length]!
  return story
    .flatMap(
      (
        { plan, orderedOn, endsOn, updatesFor, metadata: brought, effects },
        at,
      ): { on: number; effect: Effect }[] => {
        const purchase = {
          accountId,
          applicationId,
          purchaseRef: `cs_${run}_${at}`,
          orderedAt: day(orderedOn, now),
        }
        const endsAt = endsOn === null ? null : day(endsOn, now)
        const updatesUntil = (on: number) => (updatesFor === null ? null : day(on + updatesFor, now))
        const paid: Effect = {
          ...purchase,
          cause: purchase.purchaseRef,
          at: purchase.orderedAt,
          kind: 'paid',
          planId: planOf(plan),
          externalRef,
          endsAt,
          metadata: brought,
          updatesUntil: updatesUntil(orderedOn),
          renews: true,
        }
        const renewedBefore = (on: number) =>
          Math.max(
            0,
            ...effects.filter(([what, day]) => what.startsWith('renewed') && day < on).map(([, day]) => day),
          )
        const rest = effects.map(([what, on]) => ({
          on,
          effect: {
            ...purchase,
            cause: `${what} ${run} ${on}`,
            at: day(on, now),
            ...(what === 'partially_refunded' && { since: day(renewedBefore(on), now) }),
            ...whatOf(what, { on, now, otherPlan: planOf(plan + 1), updatesUntil: updatesUntil(on) }),
          },
        }))
        return [{ on: orderedOn, effect: paid }, ...rest]
      },
    )
    .sort((a, b) => a.on - b.on)
    .map(({ effect }) => effect)
}

interface Renewing {
  on: number
  now: Date
  otherPlan: string
  updatesUntil: Date | null
}

function whatOf(what: EffectKind, { on, now, otherPlan, updatesUntil }: Renewing) {
  // If there are two cancellations, one ends before today and the other after it.
  if (what === 'cancelled with an end') {
    return { kind: 'cancelled' as const, endsAt: day(on % 4 === 1 ? on + 8 : on + 100, now) }
  }
  if (what !== 'renewed' && what !== 'renewed on another plan') return { kind: what }
  const planId = what === 'renewed' ? undefined : otherPlan
  return { kind: 'renewed' as const, endsAt: day(on + 60, now), planId, updatesUntil }
}

/** All orders in which effects can arrive: a purchase is paid before its other effects. */
export function* ordersOf(effects: readonly Effect[]): Generator<Effect[]> {
  if (effects.length === 0) return yield []
  for (const [at, effect] of effects.entries()) {
    const waits = effects.some(
      (other) => other !== effect && other.purchaseRef === effect.purchaseRef && other.kind === 'paid',
    )
    if (waits && effect.kind !== 'paid') continue
    for (const order of ordersOf(effects.toSpliced(at, 1))) yield [effect, ...order]
  }
}

/** One of these orders, chosen by `places`. */
export function orderBy(effects: readonly Effect[], places: readonly number[]): Effect[] {
  const left = [...effects]
  const order: Effect[] = []
  for (const place of places) {
    if (left.length === 0) break
    const effect = left[place % left.length]!
    const landing = left.find((other) => other.purchaseRef === effect.purchaseRef && other.kind === 'paid')
    const next = landing ?? effect
    left.splice(left.indexOf(next), 1)
    order.push(next)
  }
  return [...order, ...left]
}

/** Whether, in this order, a revocation may be sent before an earlier event becomes known. */
export function mayRevokeEarly(order: readonly Effect[]): boolean {
  return order.some(
    (effect, at) => isReturned(effect) && order.slice(at + 1).some((later) => later.at < effect.at),
  )
}

function isReturned({ kind }: Effect): boolean {
  return kind === 'refunded' || kind === 'charged_back'
}
