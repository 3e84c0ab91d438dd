import { expect, test } from 'vitest'
import { bodyHash, canonicalJson } from './canonical-json.ts'

const same = (one: string, other: string) => bodyHash(JSON.parse(one)).equals(bodyHash(JSON.parse(other)))

test('white space, escapes, the order of keys and nulls do not change the hash', () => {
  expect(same('{"a":1,"b":[1,2]}', ' { "b" : [1, 2], "\\u0061" : 1.0 } ')).toBe(true)
  expect(same('{"a":{"x":null}}', '{"a":{}}')).toBe(true)
})

test('any other difference changes the hash', () => {
  for (const [one, other] of [
    ['{"a":1}', '{"a":"1"}'],
    ['{"a":[1,2]}', '{"a":[2,1]}'],
    ['{"a":1}', '{"b":1}'],
    ['{"a":{}}', '{"a":[]}'],
    ['{"a":[null]}', '{"a":[]}'],
    ['{"a":"b:c"}', '{"a:b":"c"}'],
  ] as const) {
    expect(same(one, other), `${one} ${other}`).toBe(false)
  }
})

test('the text of a value parses to the same value, without the nulls of its objects', () => {
  const value = { z: [1, -0.5, 1e21, true, [null]], a: { '': 'é"\\\u2028', __x: {} }, n: null }
  expect(JSON.parse(canonicalJson(value))).toEqual({ z: value.z, a: value.a })
})
