import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { createAddressRefusal, parseNetworks } from './address.ts'

const none = () => new Set<string>()
const refusal = createAddressRefusal([], none)

// Independent of the code under test: addresses are numbers, and ranges have a first and a last number.
type Range = [first: bigint, last: bigint]
const v4 = (text: string) => text.split('.').reduce((sum, byte) => sum * 256n + BigInt(byte), 0n)
const block4 = (first: string, bits: number): Range => [v4(first), v4(first) + (1n << BigInt(32 - bits)) - 1n]
const block6 = (top16: bigint, next16: bigint, bits: number): Range => {
  const first = (top16 << 112n) | (next16 << 96n)
  return [first, first + (1n << BigInt(128 - bits)) - 1n]
}
const within = (value: bigint, ranges: Range[]) =>
  ranges.some(([first, last]) => first <= value && value <= last)

const closed4: Range[] = [
  block4('0.0.0.0', 8),
  block4('10.0.0.0', 8),
  block4('100.64.0.0', 10),
  block4('127.0.0.0', 8),
  block4('169.254.0.0', 16),
  block4('172.16.0.0', 12),
  block4('192.0.0.0', 24),
  block4('192.0.2.0', 24),
  block4('192.88.99.0', 24),
  block4('192.168.0.0', 16),
  block4('198.18.0.0', 15),
  block4('198.51.100.0', 24),
  block4('203.0.113.0', 24),
  [v4('224.0.0.0'), v4('255.255.255.255')],
]
const open4 = (value: bigint) => !within(value, closed4)

const open6 = (value: bigint) => {
  const low32 = value & 0xffff_ffffn
  const isIsatap = ((value >> 32n) & 0xfcff_ffffn) === 0x5efen
  if (isIsatap && !open4(low32)) return false
  if (value >> 32n === 0xffffn) return open4(low32)
  if (value >> 32n === 0x0064_ff9b_0000_0000_0000_0000n) return open4(low32)
  if (value >> 112n === 0x2002n) return open4((value >> 80n) & 0xffff_ffffn)
  const global: Range = [0x2000n << 112n, (0x4000n << 112n) - 1n]
  return (
    within(value, [global]) &&
    !within(value, [block6(0x2001n, 0n, 23), block6(0x2001n, 0xdb8n, 32), block6(0x3fffn, 0n, 20)])
  )
}

const text4 = (value: bigint) => [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 255n).join('.')
const text6 = (value: bigint) =>
  [112n, 96n, 80n, 64n, 48n, 32n, 16n, 0n].map((shift) => ((value >> shift) & 0xffffn).toString(16)).join(':')

// The generated addresses are arbitrary, or at the edge of a range or next to it.
const edges4 = closed4
  .flatMap(([first, last]) => [first - 1n, first, last, last + 1n])
  .filter((n) => n >= 0n && n < 1n << 32n)
const any4 = fc.oneof(fc.bigInt(0n, (1n << 32n) - 1n), fc.constantFrom(...edges4))
const prefixes6 = [
  '0', '00000000000000000000ffff', '0000000000000000ffff0000', '0064ff9b', '0064ff9b0000000000000000', '0064ff9b00000000', '0064ff9b0001', '0100', '01000000000000000001',
  '1fff', '2001', '20010000', '200100020000', '20010010', '200101ff', '20010200', '20010db7', '20010db8', '20010db9', '2002', '20027f000001', '2606',
  '3ffe', '3fff', '3fff0fff', '3fff1000', '4000', '5f00', 'fbff', 'fc00', 'fdff', 'fe00', 'fe80', 'febf', 'fec0', 'ff02',
].map((hex) => ({ bits: BigInt(hex.length * 4), value: BigInt(`0x${hex}`) })) // prettier-ignore
const any6 = fc.oneof(
  fc.bigInt(0n, (1n << 128n) - 1n),
  fc
    .tuple(fc.constantFrom(...prefixes6), fc.bigInt(0n, (1n << 128n) - 1n), any4)
    .chain(([{ bits, value }, rest, tail]) => {
      const free = 128n - bits
      const filled = (value << free) | (rest & ((1n << free) - 1n))
      const isatap = ((filled >> 64n) << 64n) | (0x5efen << 32n) | tail
      return fc.constantFrom(
        filled,
        free >= 32n ? (value << free) | tail : filled,
        ...(free >= 64n ? [isatap, isatap | (0x0200n << 48n)] : []),
      )
    }),
)

test('an IPv4 address is admitted if and only if no special range contains it', () => {
  fc.assert(
    fc.property(any4, (value) => {
      const address = text4(value)
      expect({ address, admitted: refusal(address) === null }).toEqual({ address, admitted: open4(value) })
    }),
    { numRuns: 3000 },
  )
})

test('an IPv6 address is admitted if and only if it is global unicast and its embedded IPv4 address is admitted', () => {
  fc.assert(
    fc.property(any6, (value) => {
      const address = text6(value)
      expect({ address, admitted: refusal(address) === null }).toEqual({ address, admitted: open6(value) })
    }),
    { numRuns: 5000 },
  )
})

const prefix64 = fc.bigInt(0x2000n << 48n, (0x4000n << 48n) - 1n)
const embeddings = fc.constantFrom<[string, (value: bigint, prefix: bigint) => bigint]>(
  ['mapped', (value) => (0xffffn << 32n) | value],
  ['compatible', (value) => value],
  ['translated', (value) => (0xffff_0000n << 32n) | value],
  ['NAT64', (value) => (0x64_ff9bn << 96n) | value],
  ['local NAT64 of 96 bits', (value) => (0x64_ff9b_0001n << 80n) | value],
  [
    'local NAT64 of 48 bits',
    (value) => (0x64_ff9b_0001n << 80n) | ((value >> 16n) << 64n) | ((value & 0xffffn) << 40n),
  ],
  ['6to4', (value, prefix) => (0x2002n << 112n) | (value << 80n) | (prefix & 0xffff_ffffn)],
  ['Teredo of a server', (value, prefix) => (0x2001n << 112n) | (value << 64n) | prefix],
  ['Teredo of a client', (value, prefix) => (0x2001n << 112n) | (prefix << 32n) | (value ^ 0xffff_ffffn)],
  ['ISATAP', (value, prefix) => (prefix << 64n) | (0x5efen << 32n) | value],
  ['universal ISATAP', (value, prefix) => (prefix << 64n) | (0x0200_5efen << 32n) | value],
  ['ISATAP in 6to4', (value) => (0x2002_0808_0808n << 80n) | (0x5efen << 32n) | value],
)

test('an IPv6 address in which a special IPv4 address is embedded is refused, whatever the form', () => {
  const closed = any4.filter((value) => !open4(value))
  fc.assert(
    fc.property(closed, embeddings, prefix64, (value, [form, embed], prefix) => {
      const address = text6(embed(value, prefix))
      expect(refusal(address), `${form} of ${text4(value)}: ${address}`).not.toBeNull()
    }),
    { numRuns: 5000 },
  )
})

test('an address that the operator denies is denied in each IPv6 form', () => {
  fc.assert(
    fc.property(any4, embeddings, prefix64, (value, [, embed], prefix) => {
      const guarded = createAddressRefusal(parseNetworks('::/0'), none, parseNetworks(text4(value)))
      expect(guarded(text6(embed(value, prefix)))).toBe('a denied address')
    }),
    { numRuns: 2000 },
  )
})

test('a network that is allowed admits its addresses and no other private ones', () => {
  fc.assert(
    fc.property(any4, fc.integer({ min: 8, max: 32 }), any4, (base, bits, other) => {
      const shift = BigInt(32 - bits)
      const admits = createAddressRefusal(parseNetworks(`${text4(base)}/${bits}`), none)
      expect(admits(text4(base))).toBeNull()
      expect(admits(text4(other)) === null).toBe(open4(other) || other >> shift === base >> shift)
    }),
    { numRuns: 2000 },
  )
})

test.each([
  ['127.0.0.1', 'a loopback address'],
  ['::1', 'a loopback address'],
  ['::ffff:10.1.2.3', 'a private address'],
  ['169.254.169.254', 'a link-local address'],
  ['64:ff9b::169.254.169.254', 'a link-local address'],
  ['64:ff9b:1::1', 'a reserved address'],
  ['2002:a00:1::', 'a private address'],
  ['2001:0:4136:e378:8000:63bf:3fff:fdd2', 'a Teredo address'],
  ['2000::5efe:10.0.0.1', 'a private address'],
  ['2606:2800::200:5efe:127.0.0.1', 'a loopback address'],
  ['2002:808:808::5efe:a00:1', 'a private address'],
  ['fe80::1%eth0', 'a link-local address'],
  ['fd12:3456::1', 'a private (unique local) address'],
  ['5f00::1', 'a segment routing address'],
  ['100::1', 'a discard-only address'],
  ['255.255.255.255', 'a broadcast address'],
  ['example.com', 'not an IP address'],
  ['0x7f.1', 'not an IP address'],
  ['2130706433', 'not an IP address'],
])('%s is refused as %s', (address, reason) => {
  expect(refusal(address)).toBe(reason)
})

test('allowed networks may be IPv6, single addresses, or several with spaces between', () => {
  const admits = createAddressRefusal(parseNetworks(' fd00::/8 , 10.0.0.7,::1 '), none)
  expect(admits('fd12::1')).toBeNull()
  expect(admits('::1')).toBeNull()
  expect(admits('::ffff:10.0.0.7')).toBeNull()
  expect(admits('10.0.0.8')).toBe('a private address')
  expect(admits('fe80::1')).toBe('a link-local address')
})

test('an empty list of networks allows nothing, and an invalid entry is named', () => {
  expect(parseNetworks('')).toEqual([])
  for (const entry of [
    '10.0.0.0/33',
    '10.0.0.0/',
    'localhost',
    '10.0.0.0/8/9',
    'fd00::/129',
    '10/8',
    '10.0.0.0/-1',
  ]) {
    expect(() => parseNetworks(`127.0.0.0/8,${entry}`)).toThrow(`"${entry}" is not a network`)
  }
})

test("the machine's own addresses are refused though they are public, unless they are allowed", () => {
  const own = () => new Set(['93.184.216.34', '2606:2800::1'])
  const guarded = createAddressRefusal([], own)
  expect(guarded('93.184.216.34')).toBe('an address of this service')
  expect(guarded('::ffff:93.184.216.34')).toBe('an address of this service')
  expect(guarded('2606:2800:0:0::1')).toBe('an address of this service')
  expect(guarded('93.184.216.35')).toBeNull()
  expect(createAddressRefusal(parseNetworks('93.184.216.34/32'), own)('93.184.216.34')).toBeNull()
})

test('networks that the operator denies are refused also if they are public or allowed, in every form of their addresses', () => {
  const denied = parseNetworks('93.184.216.0/24,2606:2800::/32,10.1.0.0/16')
  const guarded = createAddressRefusal(parseNetworks('10.0.0.0/8,64:ff9b::/96'), none, denied)
  for (const address of [
    '93.184.216.34',
    '::ffff:93.184.216.34',
    '64:ff9b::5db8:d822',
    '2002:5db8:d822::1',
    '2606:2800::1',
    '10.1.2.3',
  ]) {
    expect(guarded(address), address).toBe('a denied address')
  }
  expect(guarded('93.184.217.34')).toBeNull()
  expect(guarded('10.2.0.1')).toBeNull()
})
