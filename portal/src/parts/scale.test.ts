import { expect, test } from 'vitest'
import { scaleOf } from './scale.ts'

test.each([
  [[], [1, 0]],
  [
    [0, 0],
    [1, 0],
  ],
  [[1], [1, 0]],
  [[4], [4, 2, 0]],
  [
    [7, 3],
    [10, 5, 0],
  ],
  [[6800], [10_000, 5000, 0]],
  [[100], [100, 50, 0]],
  [[101], [150, 100, 50, 0]],
  [
    [300, -20],
    [400, 200, 0, -200],
  ],
  [[-4], [2, 0, -2, -4]],
])('the scale of %j has round marks and covers zero and all values', (values, marks) => {
  expect(scaleOf(values)).toEqual(marks)
})
