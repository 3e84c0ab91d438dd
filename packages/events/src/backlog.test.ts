import { expect, test } from 'vitest'
import { Backlog } from './backlog.ts'

test('reading is behind for as long as a flood goes on, though what waits rises and falls, and for a second after it', () => {
  const backlog = new Backlog()
  const at = (now: number, waiting: number) => {
    backlog.note(waiting, now)
    return backlog.isBehind(now)
  }
  expect(at(0, 0)).toBe(false)
  expect(at(1, 250)).toBe(false)
  for (let now = 100; now < 5_000; now += 100) expect(at(now, (now / 100) % 2 === 0 ? 0 : 500)).toBe(true)
  expect(at(5_899, 250)).toBe(true)
  expect(at(5_900, 250)).toBe(false)
})
