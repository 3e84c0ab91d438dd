/** A number from 0 up to, not including, `below`. */
export type Next = (below: number) => number

/** A small generator of pseudo-random numbers: the same seed gives the same numbers on every version of Node. */
export function numbersFrom(seed: number): Next {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

export function shuffled<Item>(items: Item[], next: Next): Item[] {
  const order = [...items]
  for (let at = order.length - 1; at > 0; at -= 1) {
    const other = next(at + 1)
    ;[order[at], order[other]] = [order[other]!, order[at]!]
  }
  return order
}
