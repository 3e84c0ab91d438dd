/** Interface 6.3: payloads are kept so long; the record of the delivery stays. */
export const payloadDays = 90

const dayMs = 86_400_000

/** Payloads of events recorded before this are past retention, whether their partition is dropped yet or not. */
export function keptSince(now: Date): Date {
  return new Date(now.getTime() - payloadDays * dayMs)
}
