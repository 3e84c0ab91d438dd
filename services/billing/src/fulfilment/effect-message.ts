import { create } from '@bufbuild/protobuf'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { PurchaseEffectSchema } from '@licensing/proto/purchases'
import type { PurchaseEffect } from '@licensing/proto/purchases'
import type { EffectRow } from './effect-queries.ts'

type Kind = NonNullable<MessageInitShape<typeof PurchaseEffectSchema>['kind']>

/** An effect as licensing is sent it. */
export function effectMessage(row: EffectRow): PurchaseEffect {
  return create(PurchaseEffectSchema, {
    accountId: row.account_id,
    applicationId: row.application_id,
    // A sale goes by the shop's own id, as it always has.
    purchaseRef: row.purchase_ref.startsWith('sale_') ? row.cause : row.purchase_ref,
    cause: row.cause,
    at: timestampFromDate(row.at),
    orderedAt: timestampFromDate(row.ordered_at),
    kind: kindOf(row),
  })
}

function kindOf(row: EffectRow): Kind {
  const endsAt = row.ends_at ? { endsAt: timestampFromDate(row.ends_at) } : {}
  switch (row.kind) {
    case 'landed':
      return { case: 'landed', value: { planId: row.plan_id!, externalRef: row.external_ref!, ...endsAt } }
    case 'renewed':
      return { case: 'renewed', value: { ...endsAt, ...(row.plan_id !== null && { planId: row.plan_id }) } }
    case 'payments_failed':
      return { case: 'paymentsFailed', value: {} }
    case 'inquiry_opened':
      return { case: 'inquiryOpened', value: {} }
    case 'inquiry_closed':
      return { case: 'inquiryClosed', value: {} }
    case 'partly_refunded':
      return { case: 'partlyRefunded', value: {} }
    case 'given_back':
      return { case: 'givenBack', value: { chargedBack: row.charged_back } }
    case 'cancelled':
      return { case: 'cancelled', value: {} }
    case 'reordered':
      return { case: 'reordered', value: {} }
    case null:
      throw new Error('an effect that changes no licence is not sent')
  }
}
