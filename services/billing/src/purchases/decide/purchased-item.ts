import type { InvoicePaidFact, ItemLine, SubscriptionItem } from '../../processor/facts.ts'

/**
 * Follows the item of a subscription that a purchase is for, through the subscription's invoices in the order in which
 * they were paid. Other items, such as add-ons, have periods and prices of their own, and change no licence.
 *
 * At first it is the item that has the price which the checkout sold. It stays that item when its price changes. If the
 * subscription no longer has the item, another one has replaced it.
 */
export class PurchasedItem {
  #itemRef: string | undefined
  #priceRef: string | undefined
  readonly #isMapped: (priceRef: string | undefined) => boolean

  /** @param prices prices that plans of the application are mapped to */
  constructor(soldAtPrice: string, prices: ReadonlyMap<string, unknown>) {
    this.#priceRef = soldAtPrice
    this.#isMapped = (priceRef) => priceRef !== undefined && prices.has(priceRef)
  }

  /**
   * The item's line on the next invoice; null if the invoice is only for other items.
   *
   * @returns undefined if the processor must be asked for the invoice first
   */
  next({ reason, lines, items }: InvoicePaidFact): ItemLine | null | undefined {
    if (!lines) return undefined
    const own = this.#own(lines) ?? (reason === 'first' ? this.soldAmong(lines) : undefined)
    if (own) return this.#follow(own)
    if (!items) return lines.length === 0 ? null : undefined
    if (this.#own(items)) return null
    const replacement = this.#replacementAmong(items)
    const line = lines.find(({ itemRef }) => itemRef === replacement?.itemRef)
    return line ? this.#follow(line) : null
  }

  /** The item that the checkout sold, perhaps at another price that the customer chose there. */
  soldAmong<Item extends ItemLine>(items: Item[]): Item | undefined {
    return this.#own(items) ?? items.find(({ priceRef }) => this.#isMapped(priceRef)) ?? items[0]
  }

  #own<Item extends ItemLine>(items: Item[]): Item | undefined {
    return (
      items.find(({ itemRef }) => itemRef === this.#itemRef) ??
      items.find(({ priceRef }) => priceRef !== undefined && priceRef === this.#priceRef)
    )
  }

  /** The newest item that a plan is mapped to: the other items existed before. */
  #replacementAmong(items: SubscriptionItem[]): SubscriptionItem | undefined {
    const mapped = items.filter(({ priceRef }) => this.#isMapped(priceRef))
    const newest = mapped.toSorted((a, b) => b.createdAt - a.createdAt).at(0)
    return newest ?? (items.length === 1 ? items[0] : undefined)
  }

  #follow(line: ItemLine): ItemLine {
    this.#itemRef = line.itemRef
    this.#priceRef = line.priceRef ?? this.#priceRef
    return line
  }
}
