import type { Logger } from './log.ts'

/** Longest time that an answer of /metrics waits for measurements. */
const limitMs = 2_000

const measures = new Set<() => Promise<void>>()

/**
 * Calls `measure` before each answer of /metrics, to set gauges: so the database is queried for them only if somebody reads
 * them. If `measure` fails or takes long, the gauges keep their last values.
 *
 * @param name for the log
 * @returns a function that ends this
 * @example const end = measureWhenScraped(log, 'queue', async () => waiting.set(await countWaiting(sql)))
 */
export function measureWhenScraped(log: Logger, name: string, measure: () => Promise<void>): () => void {
  let running: Promise<void> | undefined
  const once = () => {
    running ??= measure()
      .catch((error: unknown) => log.warn({ err: error, of: name }, 'could not be measured'))
      .finally(() => (running = undefined))
    return running
  }
  measures.add(once)
  return () => void measures.delete(once)
}

/** Sets the gauges of all `measureWhenScraped`. */
export async function measureAll(): Promise<void> {
  const limit = Promise.withResolvers<void>()
  const timer = setTimeout(limit.resolve, limitMs)
  await Promise.race([Promise.all([...measures].map((measure) => measure())), limit.promise])
  clearTimeout(timer)
}
