import { expect, test } from 'vitest'
import { elementsOf } from './follow-events.ts'

test('the objects of a list are returned unchanged, whatever characters they contain', () => {
  const objects = [
    '{"a":1.0, "b":[{"c":{}}],"d":{"e":[[]]}}',
    '{"text":"}],{\\"\\\\","brackets":"[{"}',
    '{"escaped":"\\u007d","é":"\\\\"}',
    '{}',
  ]
  expect(elementsOf(`{"data":[${objects.join(',')}],"next_after":4}`)).toEqual(objects)
  expect(elementsOf('{"data":[],"next_after":4}')).toEqual([])
})
