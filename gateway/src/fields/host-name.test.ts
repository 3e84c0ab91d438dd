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

test('the host that a product runs on may be any machine’s name', () => {
  expect(host.safeParse('Build_7.LAN').data).toBe('build_7.lan')
  expect(host.safeParse('x'.repeat(63)).success).toBe(true)
  for (const bad of ['', ' ', 'a b', 'a\0', 'x'.repeat(254), 'a..b', 'é'])
    expect(host.safeParse(bad).success, bad).toBe(false)
})
