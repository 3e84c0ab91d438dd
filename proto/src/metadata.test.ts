import { expect, test } from 'vitest'
import { changedMetadata, problemOfChange, problemOfMetadata } from './metadata.ts'

const entries = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`n${at}`, 'v']))

test('metadata has at most 50 entries with short names and values', () => {
  for (const metadata of [
    {},
    { a: '' },
    { 'A-z_0.9': '😀'.repeat(500) },
    { ['n'.repeat(40)]: 'v' },
    entries(50),
  ]) {
    expect(problemOfMetadata(metadata)).toBeUndefined()
  }
  expect(problemOfMetadata(entries(51))?.pointer).toBe('')
  for (const [name, pointer] of [
    ['', '/'],
    ['n'.repeat(41), `/${'n'.repeat(41)}`],
    ['a b', '/a b'],
    ['a/~', '/a~1~0'],
    ['ä', '/ä'],
  ]) {
    expect(problemOfMetadata({ [name!]: 'v' })).toEqual({ pointer, problem: expect.stringContaining('40') })
  }
  for (const value of ['v'.repeat(501), '\0', '\ud800']) {
    expect(problemOfMetadata({ n: value })?.pointer).toBe('/n')
  }
})

test('a change keeps other entries, and is refused as a whole if the result has too many', () => {
  const change = { remove: ['a'], set: { b: '2', c: '3' } }
  expect(changedMetadata({ a: '1', b: '1', d: '4' }, change)).toEqual({ b: '2', d: '4', c: '3' })
  expect(changedMetadata({ a: '1' }, { clear: true, remove: [], set: {} })).toEqual({})
  expect(problemOfChange(entries(50), { remove: [], set: { n0: 'w' } })).toBeUndefined()
  expect(problemOfChange(entries(50), { remove: ['n1'], set: { new: 'w' } })).toBeUndefined()
  const tooMany = { pointer: '', problem: expect.stringContaining('50') }
  expect(problemOfChange(entries(50), { remove: [], set: { new: 'w' } })).toEqual(tooMany)
  expect(problemOfChange({}, { remove: ['a b'], set: {} })?.pointer).toBe('/a b')
})
