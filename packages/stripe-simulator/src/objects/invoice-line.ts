import { newId } from '../world/ids.ts'
import type { Period } from './billing-period.ts'
import type { InvoiceLine, Price, Subscription, SubscriptionItem } from './wire.ts'

type Details = NonNullable<NonNullable<InvoiceLine['parent']>['subscription_item_details']>
export type CreditedItems = NonNullable<NonNullable<Details['proration_details']>['credited_items']>

export type Proration = {
  amount: number
  description: string
  /** What a credit gives back; null on the charge beside it. */
  creditedItems: CreditedItems | null
}

export type NewLine = {
  subscription: Subscription
  item: SubscriptionItem
  price: Price
  period: Period
  /** Absent: the whole period at the price. */
  proration?: Proration
}

/** A line that is on no invoice yet: `onInvoice` puts it there. */
export function newLine({ subscription, item, price, period, proration }: NewLine): InvoiceLine {
  const quantity = item.quantity ?? 1
  const amount = proration?.amount ?? (price.unit_amount ?? 0) * quantity
  return {
    id: newId('il'),
    object: 'line_item',
    amount,
    currency: subscription.currency,
    description: proration?.description ?? `${quantity} x ${nameOf(price)}`,
    discount_amounts: [],
    discountable: proration === undefined,
    discounts: [],
    invoice: null,
    livemode: false,
    metadata: { ...subscription.metadata },
    parent: {
      invoice_item_details: null,
      subscription_item_details: {
        invoice_item: proration === undefined ? null : newId('ii'),
        proration: proration !== undefined,
        proration_details: { credited_items: proration?.creditedItems ?? null },
        subscription: subscription.id,
        subscription_item: item.id,
      },
      type: 'subscription_item_details',
    },
    period: { end: period.end, start: period.start },
    pretax_credit_amounts: [],
    pricing: {
      price_details: { price: price.id, product: price.product },
      type: 'price_details',
      unit_amount_decimal: price.unit_amount_decimal,
    },
    quantity,
    quantity_decimal: String(quantity),
    subscription: subscription.id,
    subtotal: amount,
    taxes: [],
  }
}

export function onInvoice(invoice: string, lines: InvoiceLine[]): InvoiceLine[] {
  return lines.map((line) => ({ ...line, invoice }))
}

export function nameOf(price: Price): string {
  return price.nickname ?? price.id
}
