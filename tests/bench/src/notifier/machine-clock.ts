/** Milliseconds by the clock that all processes of this machine have in common, finer than a microsecond. */
export function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
