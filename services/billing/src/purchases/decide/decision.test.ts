import { expect, test } from 'vitest'
import { permutations } from '../../../test/histories.ts'
import { allOf, anyOf, combine } from './decision.ts'
import type { Later, Part } from './decision.ts'

const question = (ref: string) => ({ kind: 'charge' as const, ref, next_at: new Date(0) })
const at = (later: number, ...refs: string[]): Later => ({ later, questions: refs.map(question) })
const now = { now: true } as const

test('what waits for several things keeps all questions, and is decided again at the earliest time', () => {
  expect(allOf(at(20, 'a'), now, at(10, 'b'))).toEqual(at(10, 'a', 'b'))
  expect(allOf(now, now)).toEqual(now)
})

test('what waits for one of several things is decided as soon as one of them is', () => {
  expect(anyOf(at(20, 'a'), at(10))).toEqual(at(10, 'a'))
  expect(anyOf(at(20, 'a'), now)).toEqual(now)
})

test('the order of the parts changes neither the rows of a decision nor what it waits for', () => {
  const parts: Part[] = [
    { cancelledFeeRefunds: ['pay_1'], waits: [at(20, 'a')] },
    { waits: [at(Infinity, 'a', 'b')] },
    { cancelledFeeRefunds: ['pay_2'], waits: [at(10)] },
  ]
  for (const order of permutations(parts)) {
    const { cancelledFeeRefunds, questions, next } = combine({}, order)
    expect(cancelledFeeRefunds.toSorted()).toEqual(['pay_1', 'pay_2'])
    expect(questions.map(({ ref }) => ref).toSorted()).toEqual(['a', 'b'])
    expect(next).toEqual(new Date(10))
  }
  expect(combine({}, [{ waits: [at(Infinity, 'a')] }]).next).toBeUndefined()
})
