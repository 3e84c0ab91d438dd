/** The services that send events; each has a stream of its own. */
export const sources = ['catalog', 'licensing', 'billing'] as const
export type Source = (typeof sources)[number]

export const deadLetterStream = 'DEAD_LETTERS'

export function streamOf(source: Source): string {
  return `${source.toUpperCase()}_EVENTS`
}

/** The subject of an event: `events.<source>.<partition>.<name>`. */
export function subjectOf(source: Source, partition: number, name: string): string {
  return `events.${source}.${partition}.${name}`
}

/** What a stream holds. */
export function subjectsOf(source: Source): string {
  return `events.${source}.>`
}

/** Where a consuming service puts what it cannot process. */
export function deadLettersOf(service: string): string {
  return `dead-letters.${service}.>`
}
