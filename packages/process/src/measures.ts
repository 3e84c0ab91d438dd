import type { Logger } from './log.ts'

/** Longest time that /metrics waits for measurements. */
const limitMs = 2_000

const measures = new Set<() => Promise<void>>()

/**
 * Calls `measure` before each answer of /metrics, to set gauges. The database is queried for them only when they are read.
 * If `measure` fails or takes too long, the gauges keep their last values.
 *
 * @param name for the log
 * @returns a function that removes `measure`
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

/** Runs all functions registered with `measureWhenScraped`. */
export async function measureAll(): Promise<void> {
  const limit = Promise.withResolvers<void>()
  const timer = setTimeout(limit.resolve, limitMs)
  await Promise.race([Promise.all([...measures].map((measure) => measure())), limit.promise])
  clearTimeout(timer)
}
