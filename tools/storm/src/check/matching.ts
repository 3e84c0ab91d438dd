/**
 * Whether each of `lefts` can have one of `rights` that fits it for itself.
 *
 * @returns those for which there is none left
 */
export function unmatched<Left, Right>(
  lefts: readonly Left[],
  rights: readonly Right[],
  fits: (left: Left, right: Right) => boolean,
): Left[] {
  const holder = new Map<Right, Left>()
  const place = (left: Left, tried: Set<Right>): boolean => {
    for (const right of rights) {
      if (tried.has(right) || !fits(left, right)) continue
      tried.add(right)
      const other = holder.get(right)
      if (other === undefined || place(other, tried)) {
        holder.set(right, left)
        return true
      }
    }
    return false
  }
  return lefts.filter((left) => !place(left, new Set()))
}
