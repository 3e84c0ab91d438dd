import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createOutput } from './output.ts'
import type { Columns } from './output.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function givenOutput({ isTTY = false, json = false } = {}) {
  const printed = { stdout: '', stderr: '' }
  const out = createOutput(
    { write: (text) => (printed.stdout += text), isTTY },
    { write: (text) => (printed.stderr += text), isTTY },
    { json, env: {} },
  )
  return { out, printed }
}

test('without a terminal, long work prints a plain line every ten seconds, and short work prints nothing', () => {
  const { out, printed } = givenOutput()
  out.progress('0 of 9 rows')
  vi.advanceTimersByTime(9_000)
  out.progress('4 of 9 rows')
  expect(printed.stderr).toBe('')
  vi.advanceTimersByTime(1_000)
  expect(printed.stderr).toBe('4 of 9 rows\n')
  vi.advanceTimersByTime(10_000)
  out.progress('8 of 9 rows')
  vi.advanceTimersByTime(10_000)
  expect(printed.stderr).toBe('4 of 9 rows\n4 of 9 rows\n8 of 9 rows\n')
  out.close()
  vi.advanceTimersByTime(60_000)
  expect(printed.stderr.split('\n')).toHaveLength(4)
  expect(printed.stdout).toBe('')
})

test('on a terminal progress is one line, which a message or the end replaces', () => {
  const { out, printed } = givenOutput({ isTTY: true })
  out.progress('1 of 2 rows')
  out.progress('2 of 2 rows')
  out.message('done')
  expect(printed.stderr).toBe('\r\u001B[K1 of 2 rows\r\u001B[K2 of 2 rows\r\u001B[Kdone\n')
  vi.advanceTimersByTime(60_000)
  out.close()
  expect(printed.stderr).toMatch(/done\n$/)
})

test('a secret is in no message and no progress', () => {
  const { out, printed } = givenOutput()
  out.hide('hunter2-hunter2')
  out.message('hunter2-hunter2 is refused', 'so is lsk_abcdefg')
  out.progress('sending hunter2-hunter2')
  vi.advanceTimersByTime(10_000)
  expect(printed.stderr).toBe('*** is refused\nso is lsk_***\nsending ***\n')
})

test('a list is printed in columns, with their names only on a terminal, and as complete JSON with --json', () => {
  const rows = [
    { id: 'a', count: 10, note: null },
    { id: 'longer', count: 2, note: '\u001b[2J' },
  ]
  const columns: Columns<(typeof rows)[number]> = ['id', ['count', ({ count }) => count], 'note']
  const piped = givenOutput()
  piped.out.list(rows, columns)
  expect(piped.printed.stdout).toBe('a       10  -\nlonger  2   \\u001b[2J\n')
  const shown = givenOutput({ isTTY: true })
  shown.out.list(rows, columns)
  expect(shown.printed.stdout.split('\n')[0]).toMatch(/^ID +COUNT +NOTE$/)
  const json = givenOutput({ json: true })
  json.out.list(rows, columns)
  expect(JSON.parse(json.printed.stdout)).toEqual(rows)
  expect(json.printed.stdout).not.toContain('\u001b')
})

test('a record has a line for each field, and for each object of a list', () => {
  const licence = {
    id: 'lic_1',
    overrides: [],
    restrictions: { domains: ['a.example.com'] },
    entitlements: [
      { key: 'projects', value: '100' },
      { key: 'note', value: 'a\nb' },
    ],
  }
  const { out, printed } = givenOutput()
  out.record(licence)
  expect(printed.stdout.split('\n')).toEqual([
    'id: lic_1',
    'overrides: []',
    'restrictions: {"domains":["a.example.com"]}',
    'entitlements:',
    '  key: projects, value: 100',
    '  key: note, value: a\\u000ab',
    '',
  ])
  const json = givenOutput({ json: true })
  json.out.record(licence)
  expect(JSON.parse(json.printed.stdout)).toEqual(licence)
})
