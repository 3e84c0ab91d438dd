import { metadataLimits } from '@licensing/proto/metadata'
import type { Metadata } from '@licensing/proto/metadata'
import { inOrderOfTime, isLater } from './purchase.ts'
import type { Ordered, Purchase } from './purchase.ts'

/** A name among the metadata that the payments of a licence bring, as a row of the table `paid_metadata`. */
export interface PaidEntry {
  licence_id: string
  name: string
  /** The value that the latest purchase brings, in the order of the processor's clock. */
  value: string
  /** The first and the latest purchase that bring the name. */
  first_ordered_at: Date
  first_ref: string
  last_ordered_at: Date
  last_ref: string
}

export type Bringing = Ordered & Pick<Purchase, 'metadata'>

const firstOf = ({ first_ordered_at: ordered_at, first_ref: purchase_ref }: PaidEntry): Ordered => {
  return { ordered_at, purchase_ref }
}
const lastOf = ({ last_ordered_at: ordered_at, last_ref: purchase_ref }: PaidEntry): Ordered => {
  return { ordered_at, purchase_ref }
}

/**
 * The metadata that payments bring. If they bring too many names, those of the first purchases count; of the names that one
 * purchase brings, the first ones in alphabetical order. So the result does not depend on the order in which payments became
 * known.
 */
export function mergedEntries(entries: readonly PaidEntry[]): Metadata {
  const byTime = entries.toSorted((a, b) => {
    if (a.first_ref === b.first_ref) return a.name < b.name ? -1 : 1
    return isLater(firstOf(a), firstOf(b)) ? 1 : -1
  })
  return Object.fromEntries(byTime.slice(0, metadataLimits.entries).map(({ name, value }) => [name, value]))
}

/** Adds what a purchase brings to the entries of its licence. @returns the entries that changed */
export function addEntries(
  entries: PaidEntry[],
  { licence_id, purchase_ref, ordered_at, metadata }: Bringing & Pick<Purchase, 'licence_id'>,
): PaidEntry[] {
  return Object.entries(metadata).map(([name, value]) => {
    const one = { purchase_ref, ordered_at }
    let entry = entries.find((known) => known.name === name)
    if (!entry) {
      entry = { licence_id, name, value, ...asFirst(one), ...asLast(one) }
      entries.push(entry)
    }
    if (isLater(firstOf(entry), one)) Object.assign(entry, asFirst(one))
    if (isLater(one, lastOf(entry))) Object.assign(entry, asLast(one), { value })
    return entry
  })
}

const asFirst = ({ ordered_at: first_ordered_at, purchase_ref: first_ref }: Ordered) => {
  return { first_ordered_at, first_ref }
}
const asLast = ({ ordered_at: last_ordered_at, purchase_ref: last_ref }: Ordered) => {
  return { last_ordered_at, last_ref }
}

/**
 * Corrects the order of a purchase in the entries of its licence, after `purchase` has its new order.
 *
 * @param others those purchases that bring metadata and are ordered between the former and the new order; more do no harm
 * @returns the entries that changed
 */
export function moveEntries(
  entries: PaidEntry[],
  purchase: Bringing,
  former: Date,
  others: readonly Bringing[],
): PaidEntry[] {
  const { purchase_ref: ref } = purchase
  const names = Object.keys(purchase.metadata)
  const moved = entries.filter(({ name }) => names.includes(name))
  for (const entry of moved) {
    const bringing = inOrderOfTime([
      purchase,
      ...others.filter(
        ({ purchase_ref, metadata }) => purchase_ref !== ref && Object.hasOwn(metadata, entry.name),
      ),
    ])
    const [first, last] = [bringing[0]!, bringing.at(-1)!]
    // A purchase outside of the range stays the first or the last one.
    const isFirst = entry.first_ref === ref || isLater(firstOf(entry), first)
    const isLast = entry.last_ref === ref || isLater(last, lastOf(entry))
    if (isFirst) Object.assign(entry, asFirst(first))
    if (isLast) Object.assign(entry, asLast(last), { value: last.metadata[entry.name]! })
  }
  return former.getTime() === purchase.ordered_at.getTime() ? [] : moved
}
