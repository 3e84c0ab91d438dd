const share = Number(process.env['BENCH_SCALE'] ?? '1')
if (!(share > 0 && share <= 1)) {
  process.stderr.write('BENCH_SCALE is a number above 0 and up to 1; 1 is the full size\n')
  process.exit(2)
}

/** Part of the full size that this run has; below 1 its figures only show that it runs. */
export const benchScale = share

/** A full size at this run's scale, and no less than `least`. */
export function scaled(full: number, least = 1): number {
  return Math.max(least, Math.round(full * share))
}

/** Seconds of a measurement: a small run takes shorter looks. */
export function scaledSeconds(full: number): number {
  return Math.max(1, full * Math.sqrt(share))
}
