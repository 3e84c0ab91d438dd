import { assert, array, integer, property } from 'fast-check'
import { describe, it } from 'vitest'
import {
  admit,
  firstObservation,
  correct,
  mergeTimes,
  notBefore,
  observe,
  TURNED_BACK_TOLERANCE_MS,
  type SeenTime,
} from './time.ts'

const moment = integer({ min: 0, max: 4e12 })
const count = integer({ min: 0, max: 3 })

/** The time of a process after it has read the store. */
function merge(mine: SeenTime, stored: SeenTime, local: number): SeenTime {
  const now = observe(mine, local)
  return mergeTimes(now, admit(stored, now))
}

function after(locals: readonly number[], first: SeenTime): SeenTime[] {
  const seen = [first]
  for (const local of locals) seen.push(observe(seen.at(-1) ?? first, local))
  return seen
}

describe('trusted time', () => {
  it('never goes back, however the local clock is turned', () => {
    assert(
      property(moment, array(moment), (start, locals) => {
        const times = after(locals, firstObservation(start)).map(({ time }) => time)
        return times.every((time, index) => index === 0 || time >= (times[index - 1] ?? 0))
      }),
    )
  })

  it('is never behind a clock that was right when it was last set', () => {
    assert(
      property(moment, array(moment), (start, locals) =>
        after(locals, firstObservation(start)).every(({ time, local }) => time >= local),
      ),
    )
  })

  it('counts the time that passes between two backward steps of the clock', () => {
    assert(
      property(moment, array(integer({ min: 0, max: 1e9 })), (start, spans) => {
        let seen = firstObservation(start)
        for (const span of spans) seen = observe(observe({ ...seen, local: start }, start), start + span)
        return seen.time === start + spans.reduce((total, span) => total + span, 0)
      }),
    )
  })

  it('reports a clock that was turned back, but no small correction, until a token sets the time', () => {
    assert(
      property(moment, integer({ min: 0, max: 1e9 }), (start, step) => {
        const seen = observe(firstObservation(start), start - step)
        return seen.turnedBack === step > TURNED_BACK_TOLERANCE_MS && !correct(seen, start).turnedBack
      }),
    )
  })

  it('starts no earlier than the local clock, the last signature and the stored time', () => {
    assert(
      property(moment, moment, moment, moment, count, (time, local, now, signedAt, corrections) => {
        const stored = { time, local, turnedBack: false, corrections }
        const seen = notBefore(merge(firstObservation(now), stored, now), signedAt)
        return seen.time >= Math.max(time, now, signedAt)
      }),
    )
  })

  it('is the later time of two processes, unless a token has set it in one of them since', () => {
    assert(
      property(moment, moment, moment, count, count, (mine, theirs, local, myCount, theirCount) => {
        const held = { time: mine, local, turnedBack: false, corrections: myCount }
        const stored = { time: theirs, local, turnedBack: true, corrections: theirCount }
        const { time, corrections } = merge(held, stored, local)
        if (myCount === theirCount && time !== Math.max(mine, theirs)) return false
        if (myCount > theirCount && time !== mine) return false
        if (myCount < theirCount && time !== Math.max(theirs, Math.min(mine, local))) return false
        return corrections === Math.max(myCount, theirCount)
      }),
    )
  })
})
