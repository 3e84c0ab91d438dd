import type { Outcome } from '../outcome.ts'

/** Something that must not be, in a sentence. */
export interface Violation {
  rule: string
  detail: string
}

export function check(_outcome: Outcome): Violation[] {
  return []
}
