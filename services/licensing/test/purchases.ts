import { create } from '@bufbuild/protobuf'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { ServiceError } from '@licensing/grpc/errors'
import type { PurchaseEffectKind } from '@licensing/proto/closed-sets'
import type { ErrorCode } from '@licensing/proto/errors'
import type { Licence } from '@licensing/proto/licensing'
import type { Metadata } from '@licensing/proto/metadata'
import { PurchaseEffectSchema } from '@licensing/proto/purchases'
import type { PurchaseEffectResult } from '@licensing/proto/purchases'
import type { Harness } from './harness.ts'

let made = 0
export const unique = (name: string) => `${name}-${(made += 1)}`
export const inDays = (days: number) => new Date(Date.now() + days * 86_400_000)
export const daysAgo = (days: number) => inDays(-days)

type Callee = Pick<Harness, 'accountId' | 'applicationId' | 'purchases'>
/** An effect on a purchase: its kind, and its values. */
export type EffectFields = Pick<
  MessageInitShape<typeof PurchaseEffectSchema>,
  'planId' | 'externalRef' | 'endsAt' | 'updatesUntil'
> & { kind: PurchaseEffectKind }

interface Buying {
  planId: string
  orderedAt: Date
  externalRef?: string
  purchaseRef?: string
  endsAt?: Date
  metadata?: Metadata
  updatesUntil?: Date
  /** Set for a subscription that the processor will charge again. */
  renews?: boolean
}

export interface Bought {
  bought: Buying & { purchaseRef: string; externalRef: string }
  licence: Licence
  created: boolean
}

/** A customer pays for a purchase. */
export async function buy(harness: Callee, buying: Buying): Promise<Bought> {
  const bought = {
    ...buying,
    externalRef: buying.externalRef ?? unique('buyer'),
    purchaseRef: buying.purchaseRef ?? unique('cs'),
  }
  const { planId, externalRef, endsAt, orderedAt, metadata = {}, updatesUntil, renews = false } = bought
  const value = {
    planId,
    externalRef,
    metadata: { entries: metadata },
    renews,
    ...(endsAt && { endsAt: timestampFromDate(endsAt) }),
    ...(updatesUntil && { updatesUntil: timestampFromDate(updatesUntil) }),
  }
  const paid = { bought }
  return {
    bought,
    ...(await applied(harness, paid, { kind: 'paid', ...value }, orderedAt, bought.purchaseRef)),
  }
}

/** Applies an effect to a purchase. @returns the licence after it */
export async function apply(
  harness: Callee,
  purchase: Pick<Bought, 'bought'>,
  happened: EffectFields,
  at: Date,
  cause = unique('cause'),
): Promise<Licence> {
  return (await applied(harness, purchase, happened, at, cause)).licence
}

/** @throws ServiceError if it is refused */
async function applied(
  harness: Callee,
  { bought: { purchaseRef, orderedAt } }: Pick<Bought, 'bought'>,
  happened: EffectFields,
  at: Date,
  cause: string,
): Promise<{ licence: Licence; created: boolean }> {
  const { accountId, applicationId } = harness
  const effect = { accountId, applicationId, purchaseRef, cause, ...happened }
  const times = { at: timestampFromDate(at), orderedAt: timestampFromDate(orderedAt) }
  const message = create(PurchaseEffectSchema, { ...effect, ...times })
  const { results } = await harness.purchases.applyPurchaseEffects({ effects: [message] })
  const { outcome } = results[0]!
  if (outcome.case === 'applied') return { licence: outcome.value.licence!, created: outcome.value.created }
  throw new ServiceError(outcome.value!.code as ErrorCode, outcome.value!.detail)
}

export function refusalOf({ outcome }: PurchaseEffectResult): string | undefined {
  return outcome.case === 'refused' ? outcome.value.code : undefined
}

/**
 * The current time by the processor's clock, later than every answered call even if PostgreSQL rounded its time up.
 */
export function tick(): Date {
  const after = Date.now() + 1
  let now = after
  while (now <= after) now = Date.now()
  return new Date(now)
}

interface Payment {
  planId: string
  externalRef: string
  paymentRef?: string
  expiresOn?: Date
}

/** The purchase that each licence was last paid with. */
const latest = new Map<string, Bought>()

/** A customer pays now. */
export async function provision(harness: Callee, payment: Payment): Promise<Bought> {
  const { planId, externalRef, paymentRef: purchaseRef, expiresOn: endsAt } = payment
  const named = { ...(purchaseRef !== undefined && { purchaseRef }), ...(endsAt && { endsAt }) }
  const paid = await buy(harness, { planId, externalRef, orderedAt: tick(), ...named })
  latest.set(paid.licence.id, paid)
  return paid
}

/** A licence that a new customer has paid for. */
export async function bought(harness: Callee, planId: string, expiresOn?: Date): Promise<Licence> {
  const payment = { planId, externalRef: unique('buyer'), ...(expiresOn && { expiresOn }) }
  return (await provision(harness, payment)).licence
}

/** Events of a licence's latest purchase, with the names of the written rules. */
const effectsByName = {
  'failed payments': { kind: 'payment_failed' },
  'an inquiry': { kind: 'inquiry_opened' },
  'an inquiry that closes': { kind: 'inquiry_closed' },
  'a full refund': { kind: 'refunded' },
  'a chargeback': { kind: 'charged_back' },
  'a partial refund': { kind: 'partially_refunded' },
  'a cancelled subscription': { kind: 'cancelled' },
  'a cancellation for the end of the period': { kind: 'renewal_stopped' },
  'the undoing of such a cancellation': { kind: 'renewal_resumed' },
} satisfies Record<string, EffectFields>

export type EffectName = keyof typeof effectsByName

export const kindOf = (name: EffectName): EffectFields => effectsByName[name]

/** Applies an effect now to the purchase that the licence was last paid with. */
export function happen(
  harness: Callee,
  licence: { id: string },
  name: EffectName,
  cause = unique('cause'),
): Promise<Licence> {
  return apply(harness, latest.get(licence.id)!, effectsByName[name], tick(), cause)
}

export function renew(
  harness: Callee,
  licence: { id: string },
  endsAt: Date,
  cause = unique('in'),
): Promise<Licence> {
  return apply(harness, latest.get(licence.id)!, renewal(endsAt), tick(), cause)
}

export function renewal(endsAt: Date): EffectFields {
  return { kind: 'renewed', endsAt: timestampFromDate(endsAt) }
}
