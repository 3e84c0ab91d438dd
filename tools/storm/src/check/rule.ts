import type { Answered, Asked, Outcome, Sent } from '../outcome.ts'

/** Returns a sentence for each violation. */
export type Rule = (outcome: Outcome) => string[]

export type AskedTo<Do extends Asked['do']> = Asked extends infer Each extends Asked
  ? Each extends Asked
    ? [Do & Each['do']] extends [never]
      ? never
      : Each
    : never
  : never

/** The requests of one kind, typed. */
export function sentTo<Do extends Asked['do']>(
  { sent }: Outcome,
  ...kinds: Do[]
): (Sent & { asked: AskedTo<Do> })[] {
  return sent.filter((each): each is Sent & { asked: AskedTo<Do> } => kinds.includes(each.asked.do as Do))
}

/** How often a row may exist, given the answers to all requests for it. */
function allowedTimes(answers: Answered[]): [min: number, max: number] {
  if (answers.includes('acknowledged')) return [1, 1]
  return answers.includes('unknown') ? [0, 1] : [0, 0]
}

/** A message if a row exists too often or too rarely; otherwise nothing. */
export function timesProblem(what: string, answers: Answered[], found: number): string[] {
  const [min, max] = allowedTimes(answers)
  if (found >= min && found <= max) return []
  const answered = [...new Set(answers)].join(' and ')
  return [`${what} was ${answered} and exists ${found} times`]
}

export function groupBy<Item>(items: readonly Item[], key: (item: Item) => string): Map<string, Item[]> {
  return Map.groupBy(items, key)
}

/** The keys that occur more than once. */
export function duplicates(keys: readonly string[]): string[] {
  return [...Map.groupBy(keys, (key) => key)].filter(([, same]) => same.length > 1).map(([key]) => key)
}
