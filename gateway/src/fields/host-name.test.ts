import { expect, test } from 'vitest'
import { domain, host } from './text.ts'

test.each([
  ['App.Example.COM', 'app.example.com'],
  ['*.example.com', '*.example.com'],
  ['localhost', 'localhost'],
  ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
  ['a'.repeat(63) + '.example', 'a'.repeat(63) + '.example'],
  ['1and1.example', '1and1.example'],
])('%s is a domain', (given, kept) => {
  expect(domain.safeParse(given).data).toBe(kept)
})

test.each([
  '10.0.0.1',
  '1.2.3',
  '0x7f.1',
  'example.0x1',
  '[::1]',
  '::1',
  'a_b.example',
  '*',
  '*.',
  '*.*.example',
  'a.*.example',
  '*example.com',
  '-a.example',
  'a-.example',
  'a..example',
  '.example',
  'example.',
  'a b',
  'https://example.com',
  'example.com:80',
  'example.com/',
  'bücher.example',
  'a'.repeat(64) + '.example',
  ['a'.repeat(63), 'b'.repeat(63), 'c'.repeat(63), 'd'.repeat(63)].join('.'),
  '',
])('%s is no domain', (given) => {
  expect(domain.safeParse(given).success).toBe(false)
})

test('the name of a machine may be any text without control characters', () => {
  // The service checks its length again, so it is passed on as it was sent: in lower case it can be longer.
  for (const good of ['BÜRO-PC', 'MBP.local.', '😀'.repeat(253), 'İ'.repeat(253)])
    expect(host.safeParse(good).data).toBe(good)
  for (const bad of ['', 'a\0', 'a\nb', 'a\u0085', '\ud83d', 'x'.repeat(254), 7, null])
    expect(host.safeParse(bad).success, String(bad)).toBe(false)
})
