import type { Answered, Asked, Outcome, Sent } from '../outcome.ts'

/** A sentence for each violation. */
export type Sentences = Generator<string, void>
export type Rule = (outcome: Outcome) => Sentences

/** The requests of some kinds, typed. */
export function sentTo<Do extends Asked['do']>({ sent }: Outcome, ...kinds: Do[]): Sent<Do>[] {
  return (sent as Sent<Do>[]).filter(({ asked }) => kinds.includes(asked.do))
}

export const isAcknowledged = ({ answered }: { answered: Answered }) => answered === 'acknowledged'
export const isPossible = ({ answered }: { answered: Answered }) => answered !== 'refused'

export const groupBy = <Item>(items: Iterable<Item>, key: (item: Item) => string) => Map.groupBy(items, key)
export const indexBy = <Item>(items: readonly Item[], key: (item: Item) => string) =>
  new Map(items.map((item) => [key(item), item]))
export const sum = (numbers: number[]) => numbers.reduce((total, each) => total + each, 0)

interface Row {
  key: string
  id?: string | null | undefined
}

/**
 * Compares rows with the answers to the requests for them: an acknowledged row exists once, with the id that was answered,
 * a refused row does not exist, and a row of a request without an answer may exist once.
 */
export function* asAnswered(what: string, asked: (Row & { answered: Answered })[], rows: Row[]): Sentences {
  const [requests, found] = [groupBy(asked, ({ key }) => key), groupBy(rows, ({ key }) => key)]
  for (const key of new Set([...requests.keys(), ...found.keys()])) {
    const [tries, existing] = [requests.get(key) ?? [], found.get(key) ?? []]
    const [min, max] = [tries.some(isAcknowledged) ? 1 : 0, tries.some(isPossible) ? 1 : 0]
    if (existing.length < min || existing.length > max) {
      const answers = [...new Set(tries.map(({ answered }) => answered))].join(' and ') || 'never requested'
      yield `${what} ${key} was ${answers} and exists ${existing.length} times`
    }
    for (const { id } of tries.filter(isAcknowledged))
      if (id && existing[0] && id !== existing[0].id)
        yield `${what} ${key} was answered with ${id} and is ${existing[0].id}`
  }
}

/** Compares two lists in which the order does not matter. */
export function* same(what: string, expected: string[], found: string[]): Sentences {
  const [left, right] = [groupBy(expected, (key) => key), groupBy(found, (key) => key)]
  for (const key of new Set([...left.keys(), ...right.keys()])) {
    const [should, is] = [left.get(key)?.length ?? 0, right.get(key)?.length ?? 0]
    if (should !== is) yield `${what} ${key} is there ${is} times, not ${should}`
  }
}

/** Complains about each key that occurs more than once. */
export function* once(keys: string[], problem: string): Sentences {
  for (const [key, all] of groupBy(keys, (each) => each)) if (all.length > 1) yield `${key} ${problem}`
}

/**
 * The possible values of a field that only one client sets: the last acknowledged value, or the initial values, and every
 * value without an answer.
 */
export function lastSet<Each extends { answered: Answered }, Value>(
  sent: Each[],
  valueOf: (each: Each) => Value,
  initial: Value[],
): Value[] {
  const last = sent.findLast(isAcknowledged)
  const open = sent.filter(({ answered }) => answered === 'unknown').map(valueOf)
  return [...(last ? [valueOf(last)] : initial), ...open]
}

interface Removed {
  certain: Set<string>
  possible: Set<string>
}

/** The ids in requests that removed something: those that certainly did, and those that may have. */
export function removedBy<Each extends Sent>(sent: Each[], idOf: (each: Each) => string): Removed {
  return {
    certain: new Set(sent.filter(isAcknowledged).map(idOf)),
    possible: new Set(sent.filter(isPossible).map(idOf)),
  }
}

/** The answer for a row after the requests that may have removed it. */
export function afterRemoval(answered: Answered, id: string, { certain, possible }: Removed): Answered {
  if (certain.has(id)) return 'refused'
  return possible.has(id) && answered === 'acknowledged' ? 'unknown' : answered
}
