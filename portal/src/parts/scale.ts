/**
 * The marks of a scale, from top to bottom at equal distances. They are round numbers that include zero and cover all
 * values.
 */
export function scaleOf(values: readonly number[]): number[] {
  const highest = Math.max(0, ...values)
  const lowest = Math.min(0, ...values)
  const step = roundUp((highest - lowest) / 3)
  const top = Math.max(1, Math.ceil(highest / step))
  const bottom = Math.floor(lowest / step)
  return Array.from({ length: top - bottom + 1 }, (_, nth) => (top - nth) * step)
}

/** The next of 1, 2, 5, 10, 20, 50 and so on. Values are whole numbers. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)))
  return [1, 2, 5, 10].map((factor) => factor * power).find((round) => round >= value) ?? 10 * power
}
