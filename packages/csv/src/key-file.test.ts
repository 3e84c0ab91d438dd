import { expect, test } from 'vitest'
import { UnreadableFile } from './decode-text.ts'
import { readKeyFile, trimmedText } from './key-file.ts'
import { keyFiles } from './testing/key-files.ts'

async function* cut(bytes: Uint8Array, length: number): AsyncGenerator<Uint8Array, void, void> {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length)
}

const readAll = (bytes: Uint8Array, length = Math.max(1, bytes.length)) =>
  Array.fromAsync(readKeyFile(cut(bytes, length)))

test.each(keyFiles)('$name', async ({ bytes, refused, rows = [], flaws = [], trimmed = [] }) => {
  // The result must be the same for every division of the file into pieces.
  for (const length of [Math.max(1, bytes.length), 1, 2, 3, 5, 7]) {
    if (refused !== undefined) {
      const error = await readAll(bytes, length).catch((error: unknown) => error)
      expect(error).toBeInstanceOf(UnreadableFile)
      expect((error as Error).message).toContain(refused)
      continue
    }
    const read = await readAll(bytes, length)
    const good = read.filter(({ flaw }) => flaw === undefined)
    expect(good.map(({ legacyKey, externalRef }) => [legacyKey, externalRef])).toEqual(rows)
    expect(good.every(({ planCode }) => planCode === 'pro')).toBe(true)
    expect(read.flatMap(({ line, flaw }) => (flaw === undefined ? [] : [[line, flaw]]))).toEqual(
      flaws.map(([line, words]) => [line, expect.stringContaining(words)]),
    )
    expect(read.filter(({ isTrimmed }) => isTrimmed).map(({ line }) => line)).toEqual(trimmed)
  }
})

test('the line in another encoding is reported, wherever the file is cut', async () => {
  const { bytes } = keyFiles.find(({ name }) => name === 'UTF-8 with one line in another encoding')!
  for (const length of [bytes.length, 1, 2, 3, 16]) {
    await expect(readAll(bytes, length)).rejects.toMatchObject({ line: 4 })
  }
})

test('at most ten lines with blanks are listed', () => {
  expect(trimmedText([2])).toBe('blanks around values were removed in line 2')
  expect(trimmedText([2, 4])).toBe('blanks around values were removed in 2 rows: lines 2, 4')
  expect(trimmedText(Array.from({ length: 12 }, (_, i) => i + 2))).toBe(
    'blanks around values were removed in 12 rows: lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more',
  )
})
