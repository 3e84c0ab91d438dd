const firstMs = 250
// A part that was away is found back soon; what keeps failing needs a person, and is tried now and then.
const soonMs = 5_000
const laterMs = 60_000
const parkAfter = 40

/** Pause before an event is tried again that has been tried this often. */
export function retryDelayMs(attempts: number): number {
  if (attempts >= parkAfter) return laterMs
  return Math.min(firstMs * 2 ** (attempts - 1), soonMs)
}

/** Whether an event that has failed this often is shown to people. It is tried all the same. */
export function isParked(attempts: number): boolean {
  return attempts >= parkAfter
}
