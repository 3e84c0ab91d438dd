import { expect, test } from 'vitest'
import { limitKeyOf, parseTrustedProxies } from './client-address.ts'

test.each([
  ['203.0.113.7', '203.0.113.7'],
  ['203.0.113.7:50001', '203.0.113.7'],
  ['"203.0.113.7:50001"', '203.0.113.7'],
  ['::ffff:203.0.113.7', '203.0.113.7'],
  ['::FFFF:cb00:7107', '203.0.113.7'],
  ['[::ffff:203.0.113.7]:443', '203.0.113.7'],
  ['0:0:0:0:0:ffff:203.0.113.7', '203.0.113.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:db8::1', '2001:db8:0:0'],
  ['[2001:db8::1]', '2001:db8:0:0'],
  ['[2001:db8::1]:443', '2001:db8:0:0'],
  ['"[2001:db8::1]:443"', '2001:db8:0:0'],
  ['2001:DB8:0:0:1::', '2001:db8:0:0'],
  ['2001:0db8:0000:0000::5', '2001:db8:0:0'],
  ['64:ff9b::203.0.113.7', '64:ff9b:0:0'],
  ['::1', '0:0:0:0'],
  ['fe80::1%eth0', 'fe80:0:0:0'],
  ['[fe80::1%eth0.7]:443', 'fe80:0:0:0'],
])('%s is limited as %s', (address, key) => {
  expect(limitKeyOf(address)).toBe(key)
})

test('everything that is not an address has one limit together', () => {
  const texts = [
    '',
    'unknown',
    '_hidden',
    'for=203.0.113.7',
    '203.0.113',
    '1',
    '203.0.113.7:',
    '203.0.113.7:x',
  ]
  texts.push(
    '[203.0.113.7',
    '2001:db8::1:::443',
    '[]',
    '[]:1',
    '%eth0',
    '0x7f.1',
    '256.1.1.1',
    '"',
    'a'.repeat(9_000),
  )
  expect(new Set([...texts, undefined].map(limitKeyOf)).size).toBe(1)
})

test.each([
  ['1', ['10.0.0.1'], ['10.0.0.1', 1]],
  ['10.0.0.0/8, 2001:db8::/32', ['10.1.2.3'], ['11.0.0.1', 0]],
  ['10.0.0.0/8,2001:db8::/32', ['10.1.2.3:4000', '::ffff:10.1.2.3', '[2001:db8::9]:443'], ['2001:db9::1', 0]],
  ['10.0.0.1', ['10.0.0.1'], ['10.0.0.2', 0]],
] as const)('TRUST_PROXY %s trusts %j and not %j', (text, trusted, [other, hop]) => {
  const trusts = parseTrustedProxies(text)
  for (const address of trusted) expect(trusts(address, 0), address).toBe(true)
  expect(trusts(other, hop)).toBe(false)
})

test.each(['proxy', '10.0.0.0/33', '10.0.0.0/8/8', '10.0.0.1,,', '2001:db8::/x', '-1'])(
  'TRUST_PROXY %s is refused',
  (text) => {
    expect(() => parseTrustedProxies(text)).toThrow(/must be a number, or addresses and CIDRs/)
  },
)
