const share = Number(process.env['BENCH_SCALE'] ?? '1')
if (!(share > 0 && share <= 1)) {
  process.stderr.write('BENCH_SCALE is a number above 0 and up to 1; 1 is the full size\n')
  process.exit(2)
}

/** The size of this run, as a part of the full size. Below 1 the figures mean nothing. */
export const benchScale = share

/** A size at the scale of this run, at least `min`. */
export function scaled(full: number, min = 1): number {
  return Math.max(min, Math.round(full * share))
}

/** The duration of a measurement in seconds. A small run measures for a shorter time. */
export function scaledSeconds(full: number): number {
  return Math.max(1, full * Math.sqrt(share))
}
