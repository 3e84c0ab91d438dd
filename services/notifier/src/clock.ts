import { currentTime } from '@licensing/process/clock'

/** The current time. Tests can change it. */
export interface Clock {
  now(): Date
}

export const systemClock: Clock = { now: currentTime }
