import { timestamp } from './timestamp.ts'

/** `since` and `until` of a list. */
export const period = {
  since: timestamp.optional().describe('At or after this time.'),
  until: timestamp.optional().describe('Before this time.'),
}
