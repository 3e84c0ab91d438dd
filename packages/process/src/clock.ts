import { Gauge } from 'prom-client'

const offset = new Gauge({
  name: 'clock_offset_seconds',
  help: 'By how much the database’s clock is ahead of this machine’s; over 5 in either direction, its time is used',
})

// Clocks of synchronized machines differ by milliseconds.
const toleratedMs = 5_000
let correctionMs = 0

/**
 * The current time, in milliseconds since 1970. If the clock of this machine is wrong, it is the time of the service's
 * database: signatures, ends and due times of a replica must agree with those of the others.
 */
export const currentMs = (): number => Date.now() + correctionMs

export const currentTime = (): Date => new Date(currentMs())

/** For code whose time tests can change. */
export interface Clock {
  now(): Date
}

/**
 * Sets by how much the database's clock is ahead of this machine's, in milliseconds.
 *
 * @returns whether the time that is used from now on has changed its source
 */
export function setClockOffset(ms: number): boolean {
  const wasCorrected = correctionMs !== 0
  offset.set(ms / 1000)
  correctionMs = Math.abs(ms) > toleratedMs ? ms : 0
  return wasCorrected !== (correctionMs !== 0)
}
