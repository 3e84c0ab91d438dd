import { expect, test } from 'vitest'
import { CsvReader, type CsvRecord } from './csv-reader.ts'

function read(text: string, pieceLength = text.length || 1): CsvRecord[] {
  const reader = new CsvReader()
  const records: CsvRecord[] = []
  for (let at = 0; at < text.length; at += pieceLength)
    records.push(...reader.push(text.slice(at, at + pieceLength)))
  return [...records, ...reader.end()]
}

const fieldsOf = (text: string) => read(text).map(({ fields }) => fields)

test('quoted values may contain separators, quotes and line breaks; the last line needs no line break', () => {
  expect(fieldsOf('a,b\r\n"1,""x""",2\n"two\nlines",\r,last')).toEqual([
    ['a', 'b'],
    ['1,"x"', '2'],
    ['two\nlines', ''],
    ['', 'last'],
  ])
  expect(fieldsOf('\uFEFFa,b')).toEqual([['a', 'b']])
  expect(fieldsOf('a,b\n1,')).toEqual([
    ['a', 'b'],
    ['1', ''],
  ])
  expect(fieldsOf('')).toEqual([])
})

test('the first line determines the separator', () => {
  expect(fieldsOf('a;b\n1,5;2')).toEqual([
    ['a', 'b'],
    ['1,5', '2'],
  ])
  expect(fieldsOf('a\tb\n1,5\t2;3')).toEqual([
    ['a', 'b'],
    ['1,5', '2;3'],
  ])
})

test('a record has the number of its first line; empty lines and line breaks in values are counted', () => {
  expect(read('a\n\n"x\r\ny"\r\n\nz\n').map(({ line }) => line)).toEqual([1, 3, 6])
})

test('a misplaced quote makes one record invalid, but not the next', () => {
  expect(read('a,b\n1,x"y"\n"1"2,3\nfine,4\n')).toEqual([
    { line: 1, fields: ['a', 'b'] },
    { line: 2, fields: ['1'], flaw: 'a quote stands inside a value' },
    { line: 3, fields: [], flaw: 'a quoted value is not closed, or text follows it' },
    { line: 4, fields: ['fine', '4'] },
  ])
  expect(read('a\n"open').map(({ flaw }) => flaw)).toEqual([
    undefined,
    'a quoted value is not closed, or text follows it',
  ])
})

test('if a quote is never closed, reading stops before the end of a large file', () => {
  const rest = 'k,customer,pro\n'.repeat(10_000)
  const records = read(`a,b,c\n"open,\n${rest}`)
  expect(records[1]).toMatchObject({ line: 2, flaw: 'a value is too long' })
  expect(records.length).toBeGreaterThan(5_000)
  expect(records.at(-1)).toMatchObject({ line: 10_002, fields: ['k', 'customer', 'pro'] })
})

test('the records do not depend on where a file is cut into pieces', () => {
  const text = '\uFEFFa,b\r\n"1,""x""\r\nt",2\r\n\r\nü€😀,"b"c\n"","é"'
  const whole = read(text)
  for (let length = 1; length < text.length; length += 1) expect(read(text, length)).toEqual(whole)
})

test('a line sep= sets the separator, and is not a record', () => {
  expect(read('sep=;\r\na;b\r\n1,5;2')).toEqual([
    { line: 2, fields: ['a', 'b'] },
    { line: 3, fields: ['1,5', '2'] },
  ])
  expect(fieldsOf('SEP=|\na|b\n1;5|2,')).toEqual([
    ['a', 'b'],
    ['1;5', '2,'],
  ])
  // Only the first line can set it.
  expect(fieldsOf('a,b\nsep=,')).toEqual([
    ['a', 'b'],
    ['sep=', ''],
  ])
})

test('spaces around quotes belong to the value, and ="…" has the value between its quotes', () => {
  expect(fieldsOf('a,b\n "x" , "y"\n="0012", ="0013" \n"=""0014""","=""1"" + 2"')).toEqual([
    ['a', 'b'],
    [' x ', ' y'],
    ['0012', ' 0013 '],
    ['0014', '="1" + 2'],
  ])
})
