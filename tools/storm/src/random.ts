/** Random numbers that are the same for the same seed. */
export interface Random {
  /** 0 to 1, 1 excluded. */
  next(): number
  /** A whole number, both included. */
  between(min: number, max: number): number
  pick<Item>(items: readonly Item[]): Item
  /** True with this probability, from 0 to 1. */
  chance(probability: number): boolean
  /** A random name, with a probability in proportion to its weight. */
  weighted<Name extends string>(weights: Readonly<Record<Name, number>>): Name
}

/** The generator mulberry32, which is small and good enough to choose faults. */
export function randomOf(seed: number): Random {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return {
    next,
    between: (min, max) => min + Math.floor(next() * (max - min + 1)),
    pick: (items) => items[Math.floor(next() * items.length)]!,
    chance: (probability) => next() < probability,
    weighted: (weights) => {
      const entries = Object.entries<number>(weights)
      let left = next() * entries.reduce((sum, [, weight]) => sum + weight, 0)
      const found = entries.find(([, weight]) => (left -= weight) < 0)
      return (found ?? entries.at(-1)!)[0] as never
    },
  }
}
