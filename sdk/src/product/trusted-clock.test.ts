import { assert, array, integer, property } from 'fast-check'
import { describe, it } from 'vitest'
import {
  anchor,
  notBefore,
  observe,
  resume,
  TURNED_BACK_TOLERANCE_MS,
  type SeenTime,
} from './trusted-clock.ts'

const moment = integer({ min: 0, max: 4e12 })

function after(locals: readonly number[], first: SeenTime): SeenTime[] {
  const seen = [first]
  for (const local of locals) seen.push(observe(seen.at(-1) ?? null, local))
  return seen
}

describe('trusted time', () => {
  it('never goes back, however the local clock is turned', () => {
    assert(
      property(moment, array(moment), (start, locals) => {
        const times = after(locals, observe(null, start)).map(({ time }) => time)
        return times.every((time, index) => index === 0 || time >= (times[index - 1] ?? 0))
      }),
    )
  })

  it('is never behind a clock that was right when it was last set', () => {
    assert(
      property(moment, array(moment), (start, locals) =>
        after(locals, observe(null, start)).every(({ time, local }) => time >= local),
      ),
    )
  })

  it('counts all that passes between turnings back', () => {
    assert(
      property(moment, array(integer({ min: 0, max: 1e9 })), (start, spans) => {
        let seen = observe(null, start)
        for (const span of spans) seen = observe(observe({ ...seen, local: start }, start), start + span)
        return seen.time === start + spans.reduce((total, span) => total + span, 0)
      }),
    )
  })

  it('tells a clock that was turned back from one that was put right by little, until a token is issued', () => {
    assert(
      property(moment, integer({ min: 0, max: 1e9 }), (start, step) => {
        const seen = observe(observe(null, start), start - step)
        return seen.turnedBack === step > TURNED_BACK_TOLERANCE_MS && !anchor(seen, start).turnedBack
      }),
    )
  })

  it('starts no earlier than the local clock, what was signed, and what was kept', () => {
    assert(
      property(moment, moment, moment, moment, (time, local, now, signedAt) => {
        const seen = notBefore(resume({ time, local, turnedBack: false }, now), signedAt)
        return seen.time >= Math.max(time, now, signedAt)
      }),
    )
  })
})
