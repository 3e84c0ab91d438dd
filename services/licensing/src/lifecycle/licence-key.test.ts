import { expect, test } from 'vitest'
import { newLicenceKey } from './licence-key.ts'

test('a key is five groups of five characters of Crockford’s base 32', () => {
  for (let round = 0; round < 100; round += 1) {
    expect(newLicenceKey()).toMatch(/^[0-9A-HJKMNP-TV-Z]{5}(-[0-9A-HJKMNP-TV-Z]{5}){4}$/)
  }
})

test('all 32 characters occur at every place, so that a key has 125 random bits', () => {
  const seen = Array.from({ length: 29 }, () => new Set<string>())
  for (let round = 0; round < 2_000; round += 1) {
    newLicenceKey()
      .split('')
      .forEach((character, at) => seen[at]!.add(character))
  }
  expect(seen.map((characters) => characters.size)).toEqual(seen.map((_, at) => (at % 6 === 5 ? 1 : 32)))
})
