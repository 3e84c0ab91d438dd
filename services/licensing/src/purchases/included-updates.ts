import { isLater } from './purchase.ts'
import type { PurchasedLicence } from './purchased-licence.ts'

/**
 * Until when the payments of a licence include updates; null: without a limit. Whether there is a limit was settled by the
 * licence's first purchase, in the order of the processor's clock. So the result does not depend on the order in which
 * payments became known.
 */
export function includedUpdates({ purchases, effects }: PurchasedLicence): Date | null {
  const [first] = purchases.toSorted((a, b) => (isLater(a, b) ? 1 : -1))
  if (!first?.updates_until) return null
  const times = [...purchases, ...effects].flatMap(({ updates_until: until }) => until?.getTime() ?? [])
  return new Date(Math.max(...times))
}

/**
 * The licence's new `updates_until`. If the vendor has changed it, a payment moves it from there, never back.
 *
 * @param included what payments included before the present one
 * @param paidUntil what the present one includes; null if it says nothing about updates
 */
export function updatesAfter(
  purchased: PurchasedLicence,
  included: Date | null,
  paidUntil: Date | null,
): Date | null {
  const { updates_until: held } = purchased.licence
  if (held?.getTime() === included?.getTime()) return includedUpdates(purchased)
  return held && paidUntil && held < paidUntil ? paidUntil : held
}
