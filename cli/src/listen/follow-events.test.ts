import { expect, test } from 'vitest'
import { elementsOf } from './follow-events.ts'

test('the objects of a list come out as they stand, whatever their text holds', () => {
  const objects = [
    '{"a":1.0, "b":[{"c":{}}],"d":{"e":[[]]}}',
    '{"text":"}],{\\"\\\\","brackets":"[{"}',
    '{"escaped":"\\u007d","é":"\\\\"}',
    '{}',
  ]
  expect(elementsOf(`{"data":[${objects.join(',')}],"next_after":4}`)).toEqual(objects)
  expect(elementsOf('{"data":[],"next_after":4}')).toEqual([])
})
