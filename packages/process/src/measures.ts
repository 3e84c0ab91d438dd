import type { Logger } from './log.ts'

/** Longest time that an answer of /metrics waits for measurements. */
const limitMs = 2_000

const measures = new Set<() => Promise<void>>()

/**
 * Has `measure` set its gauges before each answer of /metrics: a process that nobody asks does not query its database for
 * them. If it fails or takes long, the gauges keep their last values.
 *
 * @param name for the log
 * @returns how to end it
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

/** Sets all gauges that are measured when they are asked for. */
export async function measureAll(): Promise<void> {
  const limit = Promise.withResolvers<void>()
  const timer = setTimeout(limit.resolve, limitMs)
  await Promise.race([Promise.all([...measures].map((measure) => measure())), limit.promise])
  clearTimeout(timer)
}
