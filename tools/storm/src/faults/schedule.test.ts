import { expect, test } from 'vitest'
import { faultKinds, scheduleOf, type FaultKind } from './schedule.ts'

test('the same seed gives the same faults, and another seed gives others', () => {
  expect(scheduleOf(7, 200)).toEqual(scheduleOf(7, 200))
  expect(scheduleOf(8, 200)).not.toEqual(scheduleOf(7, 200))
  expect(scheduleOf(7, 200).slice(0, 60)).toEqual(scheduleOf(7, 60))
})

test('ten seeds have every kind of fault, most of them many times', () => {
  const faults = Array.from({ length: 10 }, (_, seed) => scheduleOf(seed, 200)).flat()
  const times = Map.groupBy(faults, ({ kind }) => kind)
  for (const kind of Object.keys(faultKinds) as FaultKind[]) {
    expect(times.get(kind)?.length ?? 0, kind).toBeGreaterThanOrEqual(8)
  }
})

test('faults of one target never overlap, and faults of different targets do', () => {
  const faults = scheduleOf(3, 200)
  for (const [target, own] of Map.groupBy(faults, (fault) => fault.target)) {
    for (const [place, fault] of own.entries()) {
      const before = own[place - 1]
      expect(before ? before.atMs + before.forMs : 0, target).toBeLessThan(fault.atMs)
    }
  }
  const overlapping = faults.filter(
    (fault, place) =>
      place > 0 && faults.slice(0, place).some(({ atMs, forMs }) => atMs + forMs > fault.atMs),
  )
  expect(overlapping.length).toBeGreaterThan(faults.length / 2)
})
