import { expect, test } from 'vitest'
import { characters, firstCharacters, isStorable, problemOfText } from './text.ts'

test('a character is a code point, in and outside the basic plane', () => {
  expect(characters('')).toBe(0)
  expect(characters('aé€')).toBe(3)
  expect(characters('😀'.repeat(200))).toBe(200)
  // A base letter and its combining accent are two code points.
  expect(characters('e\u0301')).toBe(2)
})

test('the limit of a text counts characters, also those of two UTF-16 units', () => {
  const limit = { min: 2, max: 4 }
  for (const character of ['a', 'é', '€', '😀']) {
    for (const count of [2, 3, 4]) expect(problemOfText(character.repeat(count), limit)).toBeUndefined()
    for (const count of [0, 1, 5, 9]) {
      expect(problemOfText(character.repeat(count), limit)).toBe('must have 2 to 4 characters')
    }
  }
})

test('NUL and unpaired surrogates are refused', () => {
  for (const text of ['\0', 'a\0b', '\ud83d', 'a\ude00', '\ude00\ud83d']) {
    expect(isStorable(text)).toBe(false)
    expect(problemOfText(text, { min: 1, max: 10 })).toContain('must not contain NUL')
  }
  for (const text of ['', 'a', '😀', '\u{10ffff}', '\ufffd']) expect(isStorable(text)).toBe(true)
})

test('the beginning of a text never ends inside a character', () => {
  expect(firstCharacters('ab', 3)).toBe('ab')
  expect(firstCharacters('a😀b', 2)).toBe('a😀')
  expect(firstCharacters('😀'.repeat(100), 64)).toBe('😀'.repeat(64))
})
