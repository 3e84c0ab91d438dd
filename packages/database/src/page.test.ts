import { expect, test } from 'vitest'
import { pageOf, pageSize, rowsFor } from './page.ts'

const upTo = (count: number) => Array.from({ length: count }, (_, at) => at)

test.each([
  [-1, 50],
  [0, 50],
  [1, 1],
  [200, 200],
  [201, 200],
  [2 ** 31 - 1, 200],
])('a request for %i rows gets a page of %i', (limit, size) => {
  expect(pageSize(limit)).toBe(size)
  expect(rowsFor(limit)).toBe(size + 1)
  expect(pageOf(upTo(rowsFor(limit)), limit)).toEqual({ page: upTo(size), hasMore: true })
  expect(pageOf(upTo(size), limit)).toEqual({ page: upTo(size), hasMore: false })
})

test('an empty list is one empty page', () => {
  expect(pageOf([], 0)).toEqual({ page: [], hasMore: false })
})
