import type { Outcome, Sent } from '../../../outcome.ts'
import type { RuleName } from '../../check.ts'

/** A defect in an outcome, and the rule that must detect it. */
export interface Sabotage {
  /** A description of the defect, for the test title "it sees …". */
  what: string
  change: (outcome: Outcome) => void
  rule: RuleName
}

export function remove<Item>(items: Item[], matches: (item: Item) => boolean): void {
  items.splice(items.findIndex(matches), 1)
}

export function first<Item>(items: Item[], matches: (item: Item) => boolean = () => true): Item {
  const found = items.find(matches)
  if (found === undefined) throw new Error('the good outcome has none')
  return found
}

/** Appends a changed copy of the first item that matches. */
export function repeat<Item>(
  items: Item[],
  matches: (item: Item) => boolean,
  changes: Partial<Item> = {},
): void {
  items.push({ ...first(items, matches), ...changes })
}

export const did = (what: Sent['asked']['do']) => (sent: Sent) => sent.asked.do === what
export const licence = (outcome: Outcome, id: string) => first(outcome.licences, (each) => each.id === id)
