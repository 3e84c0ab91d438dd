import { expect, test } from 'vitest'
import { parseForm } from './params.ts'

test('brackets make objects and lists', () => {
  const tree = parseForm(
    'a=1&line_items[0][price]=p&line_items[1][price]=q&metadata[x y]=z%26&expand[]=b&expand[]=c',
  )
  expect(JSON.parse(JSON.stringify(tree))).toEqual({
    a: '1',
    line_items: { 0: { price: 'p' }, 1: { price: 'q' } },
    metadata: { 'x y': 'z&' },
    expand: { 0: 'b', 1: 'c' },
  })
})

test('no parameter name changes a prototype', () => {
  const tree = parseForm('__proto__[polluted]=yes&constructor[prototype][polluted]=yes')
  expect(Object.keys(tree)).toEqual(['__proto__', 'constructor'])
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
})
