import { assert, double, integer, option, property } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { earliest, isBlocked, NO_BACKOFF, afterFailure, type Backoff } from './attempts.ts'

const NOW = Date.parse('2026-11-21T10:00:00Z')

function delaysOf(failures: number, random: number): number[] {
  const delays: number[] = []
  let pace: Backoff = NO_BACKOFF
  for (let failure = 0; failure < failures; failure++) {
    pace = afterFailure(pace, NOW, null, undefined, random)
    delays.push(pace.retryAt - NOW)
  }
  return delays
}

describe('the pace after failures', () => {
  it('doubles from half a minute to an hour', () => {
    expect(delaysOf(9, 0).map((ms) => ms / 1000)).toEqual([30, 60, 120, 240, 480, 960, 1920, 3600, 3600])
  })

  it('spreads many clients over half of the delay', () => {
    expect(delaysOf(3, 1).map((ms) => ms / 1000)).toEqual([15, 30, 60])
  })

  it('waits no longer than the configured maximum', () => {
    expect(afterFailure(NO_BACKOFF, NOW, null, 10_000, 0).retryAt).toBe(NOW + 10_000)
  })

  it('never tries before the service allows it', () => {
    assert(
      property(
        integer({ min: 0, max: 3_600_000 }),
        double({ min: 0, max: 1, noNaN: true }),
        (retryAfterMs, random) => {
          const pace = afterFailure(NO_BACKOFF, NOW, retryAfterMs, undefined, random)
          return pace.retryAt >= NOW + retryAfterMs && isBlocked(pace, NOW) === retryAfterMs > 0
        },
      ),
    )
  })

  it('never waits more than an hour, even if the time was set back in between', () => {
    const backward = integer({ min: 0, max: 1e12 })
    const retryAfter = option(integer({ min: 0, max: 3_600_000 }))
    assert(
      property(backward, retryAfter, (setBackBy, retryAfterMs) => {
        const pace = afterFailure(NO_BACKOFF, NOW, retryAfterMs, undefined, 0)
        const later = NOW - setBackBy
        return earliest(pace, later, later) - later <= 3_600_000
      }),
    )
  })
})
