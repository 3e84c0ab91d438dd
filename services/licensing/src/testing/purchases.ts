import { create } from '@bufbuild/protobuf'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Licence } from '@licensing/proto/licensing'
import { PurchaseEffectSchema } from '@licensing/proto/purchases'
import type { PurchaseEffectResult } from '@licensing/proto/purchases'
import type { Harness } from './harness.ts'
import { inDays, unique } from './payments.ts'

export { inDays }
export const daysAgo = (days: number) => inDays(-days)

export type Kind = NonNullable<MessageInitShape<typeof PurchaseEffectSchema>['kind']>

interface Buying {
  planId: string
  orderedAt: Date
  externalRef?: string
  purchaseRef?: string
  endsAt?: Date
}

export interface Bought {
  bought: Buying & { purchaseRef: string; externalRef: string }
  licence: Licence
  created: boolean
}

/** A purchase that lands. */
export async function buy(harness: Harness, buying: Buying): Promise<Bought> {
  const bought = {
    ...buying,
    externalRef: buying.externalRef ?? unique('buyer'),
    purchaseRef: buying.purchaseRef ?? unique('cs'),
  }
  const { planId, externalRef, endsAt, orderedAt } = bought
  const value = { planId, externalRef, ...(endsAt && { endsAt: timestampFromDate(endsAt) }) }
  const landed = { bought }
  return {
    bought,
    ...(await applied(harness, landed, { case: 'landed', value }, orderedAt, bought.purchaseRef)),
  }
}

/** Something that happens to a purchase. @returns the licence after it */
export async function apply(
  harness: Harness,
  purchase: Pick<Bought, 'bought'>,
  kind: Kind,
  at: Date,
  cause = unique('cause'),
): Promise<Licence> {
  return (await applied(harness, purchase, kind, at, cause)).licence
}

async function applied(
  harness: Harness,
  { bought: { purchaseRef, orderedAt } }: Pick<Bought, 'bought'>,
  kind: Kind,
  at: Date,
  cause: string,
): Promise<{ licence: Licence; created: boolean }> {
  const { accountId, applicationId } = harness
  const effect = { accountId, applicationId, purchaseRef, cause, kind }
  const times = { at: timestampFromDate(at), orderedAt: timestampFromDate(orderedAt) }
  const message = create(PurchaseEffectSchema, { ...effect, ...times })
  const { results } = await harness.purchases.applyPurchaseEffects({ effects: [message] })
  const { outcome } = results[0]!
  if (outcome.case !== 'applied') throw new Error(`${kind.case} was refused`, { cause: outcome.value })
  return { licence: outcome.value.licence!, created: outcome.value.created }
}

export function refusalOf({ outcome }: PurchaseEffectResult): string | undefined {
  return outcome.case === 'refused' ? outcome.value.code : undefined
}
