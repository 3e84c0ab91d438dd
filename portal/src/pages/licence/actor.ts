import type { HistoryEntry } from '../../api/licences.ts'

const words: Readonly<Record<string, string>> = {
  processor: 'the payment processor',
  sweep: 'the service',
  catalog: 'the service',
  product: 'the product',
  customer: 'the customer',
}

/** The person or program that did something, as part of a sentence. */
export function nameOfActor({ actor, actor_name: name }: Pick<HistoryEntry, 'actor' | 'actor_name'>): string {
  return words[actor] ?? name ?? actor
}
