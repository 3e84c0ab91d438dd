/** Milliseconds of a clock that all processes of this machine share, with a resolution below a microsecond. */
export function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
