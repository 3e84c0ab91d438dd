const stepMs = { hour: 3_600_000, day: 86_400_000 }
const lastMs = 60_000

/**
 * For tests of what is counted by the hour, day or month of UTC: returns at once, but in the last minute of one waits for
 * the next.
 */
export async function awaitTurn(step: keyof typeof stepMs): Promise<void> {
  const leftMs = stepMs[step] - (Date.now() % stepMs[step])
  if (leftMs > lastMs) return
  await new Promise((resolve) => setTimeout(resolve, leftMs))
}
