const stepMs = { hour: 3_600_000, day: 86_400_000 }
const lastMs = 60_000

/**
 * For tests of counters by hour, day or month in UTC. In the last minute of a period it waits for the next period, otherwise
 * it returns at once.
 */
export async function awaitTurn(step: keyof typeof stepMs): Promise<void> {
  const leftMs = stepMs[step] - (Date.now() % stepMs[step])
  if (leftMs > lastMs) return
  await new Promise((resolve) => setTimeout(resolve, leftMs))
}
