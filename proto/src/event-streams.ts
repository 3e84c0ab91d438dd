/** The services that send events. Each has a log in its database and a stream in NATS. */
export const sources = ['catalog', 'licensing', 'billing'] as const
export type Source = (typeof sources)[number]

/** The services that consume the events of each source. A log keeps its events until all of them have confirmed. */
export const consumersOf = {
  catalog: ['licensing'],
  licensing: ['notifier'],
  billing: ['notifier'],
} as const satisfies Record<Source, readonly string[]>

export function streamOf(source: Source): string {
  return `${source.toUpperCase()}_EVENTS`
}

/** The subject of a batch: `events.<source>.<partition>`. */
export function subjectOf(source: Source, partition: number): string {
  return `events.${source}.${partition}`
}

/** The subjects of all batches of a source, for its stream. */
export function subjectsOf(source: Source): string {
  return `events.${source}.*`
}

/** The subject on which a consumer asks a source for its log: `log.<source>.<consumer>`. */
export function logSubjectOf(source: Source, consumer: string): string {
  return `log.${source}.${consumer}`
}
