import { expect, test } from 'vitest'
import { healthAfter, isAlarming, isGone, unknownHealth, healthChangesOf } from './endpoint-health.ts'

const at = (ms: number) => new Date(1_800_000_000_000 + ms)

/** `+` a success, `-` a failure, `x` a failure with 410 Gone, a millisecond apart. */
function attempts(signs: string, fromMs = 0) {
  return signs.split('').map((sign, i) => ({
    endpointId: 'whe_1',
    endedAt: at(fromMs + i),
    isDelivered: sign === '+',
    responseCode: sign === '+' ? 200 : sign === 'x' ? 410 : 500,
  }))
}

function healthOf(batches: ReturnType<typeof attempts>[]) {
  return batches
    .flatMap(healthChangesOf)
    .reduce((health, change) => healthAfter(health, { ...change, pending_change: 0 }), unknownHealth('whe_1'))
}

test.each(['', '+', '-', '---', '+-', '-+', '--+--', '+--+', '------+', '+-----', '-+-+-'])(
  'health does not depend on how the attempts %j are divided into batches',
  (signs) => {
    const all = attempts(signs)
    const whole = healthOf([all])
    const failuresAtEnd = /-*$/.exec(signs)![0].length
    expect(whole).toMatchObject({
      failures: failuresAtEnd,
      failing_since: failuresAtEnd > 0 ? at(signs.length - failuresAtEnd) : null,
      last_success_at: signs.includes('+') ? at(signs.lastIndexOf('+')) : null,
      last_failure_at: signs.includes('-') ? at(signs.lastIndexOf('-')) : null,
    })
    for (let cut = 0; cut <= signs.length; cut += 1) {
      expect(healthOf([all.slice(0, cut), all.slice(cut)])).toEqual(whole)
    }
    expect(healthOf(all.map((attempt) => [attempt]))).toEqual(whole)
  },
)

test('a failure that is recorded after a later success does not count', () => {
  const health = healthOf([attempts('+', 10), attempts('--', 0)])
  expect(health).toMatchObject({
    failures: 0,
    failing_since: null,
    last_failure_at: at(1),
    last_success_at: at(10),
  })
})

test('a success that is recorded after later failures does not end them', () => {
  const health = healthOf([attempts('--', 10), attempts('+', 0)])
  expect(health).toMatchObject({ failures: 2, failing_since: at(10), last_success_at: at(0) })
})

test('a success ends the failures that the vendor was alerted about', () => {
  const failing = { ...healthOf([attempts('------')]), is_alerted: true }
  const [success] = healthChangesOf(attempts('+', 100))
  expect(healthAfter(failing, { ...success!, pending_change: -1 })).toMatchObject({
    failures: 0,
    failing_since: null,
    is_alerted: false,
    pending: -1,
  })
})

test.each([
  ['-----', false, false],
  ['------', true, false],
  ['x', true, true],
  ['+x', true, true],
  ['--x-', true, true],
  ['x+', false, false],
  ['x+-', false, false],
])('attempts %j alarm: %s, and the endpoint is gone: %s', (signs, alarms, gone) => {
  const [change] = healthChangesOf(attempts(signs))
  const health = healthAfter(unknownHealth('whe_1'), { ...change!, pending_change: 0 })
  expect([isAlarming(health, change!), isGone(health, change!)]).toEqual([alarms, gone])
  expect(isAlarming({ ...health, is_alerted: true }, change!)).toBe(false)
})

test('a 410 that is recorded after a later success makes no alert', () => {
  const [gone] = healthChangesOf(attempts('x', 0))
  for (const later of [attempts('+', 10), attempts('+-', 10)]) {
    const health = healthAfter(healthOf([later]), { ...gone!, pending_change: 0 })
    expect(isAlarming(health, gone!)).toBe(false)
  }
})
