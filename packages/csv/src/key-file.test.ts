import { expect, test } from 'vitest'
import { UnreadableFile } from './decode-text.ts'
import { inCalls } from './import-calls.ts'
import { ignoredText, readKeyFile, trimmedText } from './key-file.ts'
import { keyFiles } from './testing/key-files.ts'

async function* cut(bytes: Uint8Array, length: number): AsyncGenerator<Uint8Array, void, void> {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length)
}

const readAll = (
  bytes: Uint8Array,
  length = Math.max(1, bytes.length),
  ignored?: (names: readonly string[]) => void,
) => Array.fromAsync(readKeyFile(cut(bytes, length), ignored))

test.each(keyFiles)(
  '$name',
  async ({ bytes, refused, rows = [], flaws = [], trimmed = [], ignored = [] }) => {
    // The result must be the same for every division of the file into pieces.
    for (const length of [Math.max(1, bytes.length), 1, 2, 3, 5, 7]) {
      if (refused !== undefined) {
        const error = await readAll(bytes, length).catch((error: unknown) => error)
        expect(error).toBeInstanceOf(UnreadableFile)
        expect((error as Error).message).toContain(refused)
        continue
      }
      let unknown: readonly string[] = []
      const read = await readAll(bytes, length, (names) => (unknown = names))
      expect(unknown).toEqual(ignored)
      const good = read.filter(({ flaw }) => flaw === undefined)
      expect(good.map(({ legacyKey, item }) => [legacyKey, item.external_ref])).toEqual(rows)
      expect(good.every(({ planCode }) => planCode === 'pro')).toBe(true)
      expect(read.flatMap(({ line, flaw }) => (flaw === undefined ? [] : [[line, flaw]]))).toEqual(
        flaws.map(([line, words]) => [line, expect.stringContaining(words)]),
      )
      expect(read.filter(({ isTrimmed }) => isTrimmed).map(({ line }) => line)).toEqual(trimmed)
    }
  },
)

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

const header = 'legacy_key,external_ref,plan_code,expires_on,updates_until,max_activations,metadata.A.b'
const itemsIn = async (...lines: string[]) =>
  (await readAll(new TextEncoder().encode([header, ...lines].join('\n')))).map(({ item }) => item)

test('a date without a time is the end of that day, UTC; empty values are absent', async () => {
  expect(
    await itemsIn(
      'k1,c,p,2099-01-31,2030-02-28,3,x',
      'k2,c,p,2099-01-31T00:00:00Z,next year,,',
      'k3,c,p,,,,',
    ),
  ).toEqual([
    {
      legacy_key: 'k1',
      external_ref: 'c',
      expires_on: '2099-01-31T23:59:59.999Z',
      updates_until: '2030-02-28T23:59:59.999Z',
      restrictions: { max_activations: 3 },
      metadata: { 'A.b': 'x' },
    },
    { legacy_key: 'k2', external_ref: 'c', expires_on: '2099-01-31T00:00:00Z', updates_until: 'next year' },
    { legacy_key: 'k3', external_ref: 'c' },
  ])
})

test('values that the service refuses for their length are cut, and are still too long', async () => {
  const long = '😀'.repeat(5_000)
  const [item] = await itemsIn([long, long, 'p', long, long, '1', long].join(','))
  const lengths = [item!.legacy_key, item!.external_ref, item!.expires_on, item!.metadata!['A.b']].map(
    (text) => Array.from(text!).length,
  )
  expect(lengths).toEqual([256, 256, 256, 501])
  const fitting = ['😀'.repeat(255), 'é'.repeat(255), 'p', '', '', '', '😀'.repeat(500)]
  const [whole] = await itemsIn(fitting.join(','))
  expect([whole!.legacy_key, whole!.external_ref, whole!.metadata!['A.b']]).toEqual([
    fitting[0],
    fitting[1],
    fitting[6],
  ])
})

test('a call has at most 500 rows, and fewer if they are large', async () => {
  const small = await readAll(new TextEncoder().encode(`${header}\n${'k,c,p,,,,\n'.repeat(1_001)}`))
  expect((await Array.fromAsync(inCalls(small))).map(({ length }) => length)).toEqual([500, 500, 1])
  const names = Array.from({ length: 50 }, (_, at) => `metadata.n${at}`)
  const large = Array.from({ length: 300 }, (_, at) =>
    [`k${at},c,p`, ...names.map(() => '界'.repeat(500))].join(','),
  )
  const text = [`legacy_key,external_ref,plan_code,${names.join(',')}`, ...large].join('\n')
  const calls = await Array.fromAsync(inCalls(await readAll(new TextEncoder().encode(text))))
  expect(calls.flat()).toHaveLength(300)
  const sizes = calls.map(
    (rows) => new TextEncoder().encode(JSON.stringify(rows.map(({ item }) => item))).length,
  )
  expect(Math.max(...sizes)).toBeLessThan(2 * 1024 * 1024)
  expect(sizes.length).toBeLessThan(20)
})

test('at most ten ignored columns are named', () => {
  expect(ignoredText(['note'])).toBe('the column note is ignored')
  expect(ignoredText(['note', 'seats'])).toBe('2 columns are ignored: note, seats')
  expect(ignoredText(Array.from({ length: 12 }, (_, at) => `c${at}`))).toMatch(
    /^12 columns .* c9 and 2 more$/,
  )
})
