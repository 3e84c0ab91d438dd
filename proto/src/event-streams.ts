/** The services that send events. Each has a log in its database and a stream in NATS. */
export const sources = ['catalog', 'licensing', 'billing', 'notifier'] as const
export type Source = (typeof sources)[number]

/**
 * The services that consume the events of each source. A log keeps its events until all of them have confirmed. Catalog takes
 * the entries of the audit log from every source, its own included.
 */
export const consumersOf = {
  catalog: ['licensing', 'catalog'],
  licensing: ['notifier', 'catalog'],
  billing: ['notifier', 'catalog'],
  notifier: ['catalog'],
} as const satisfies Record<Source, readonly string[]>

/**
 * The consumer that sets the pace of a source: while many events of an account are unconfirmed by it, the account's other
 * events wait. Nothing else waits for the audit log, so catalog sets no other pace than that of its own entries.
 */
export function pacingConsumerOf(source: Source): string {
  return consumersOf[source][0]
}

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
