import { expect, test } from 'vitest'
import { parseForm } from './forms.ts'

test('brackets make objects, and lists with or without numbers', () => {
  const tree = parseForm('metadata[x y]=z%26&expand[]=b&expand[]=c&line_items[0][price]=p')
  expect(JSON.parse(JSON.stringify(tree))).toEqual({
    metadata: { 'x y': 'z&' },
    expand: { 0: 'b', 1: 'c' },
    line_items: { 0: { price: 'p' } },
  })
})

test('no parameter name changes a prototype', () => {
  const tree = parseForm('__proto__[polluted]=yes&constructor[prototype][polluted]=yes')
  expect(Object.keys(tree)).toEqual(['__proto__', 'constructor'])
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
})
