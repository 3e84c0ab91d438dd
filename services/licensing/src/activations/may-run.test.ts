import type { LicenceStatus } from '@licensing/proto/closed-sets'
import { expect, test } from 'vitest'
import { covers, refusalReason } from './may-run.ts'

const now = new Date('2026-11-01T12:00:00.000Z')
const before = new Date(now.getTime() - 1)
const after = new Date(now.getTime() + 1)

const reasonFor = (status: LicenceStatus, expiresOn: Date | null = null, domains: string[] = []) =>
  refusalReason({ status, expires_on: expiresOn, domains }, 'app.example.com', now)

test.each([
  ['active', undefined],
  ['downgraded', undefined],
  ['suspended', 'suspended'],
  ['revoked', 'revoked'],
  ['expired', 'expired'],
  ['retired', 'retired'],
] as const)('a licence that is %s is refused as: %s', (status, reason) => {
  expect(reasonFor(status)).toBe(reason)
  expect(reasonFor(status, after)).toBe(reason)
})

test.each([
  ['active', 'expired'],
  ['downgraded', 'expired'],
  ['suspended', 'expired'],
  ['revoked', 'revoked'],
  ['retired', 'retired'],
] as const)(
  'a licence that is %s and past its expiry is refused, before and after the sweep, as: %s',
  (status, reason) => {
    expect(reasonFor(status, before)).toBe(reason)
    expect(reasonFor(status, now)).toBe(reason)
  },
)

test('the host is checked if the licence names domains and may run', () => {
  expect(reasonFor('active', null, ['other.example.com'])).toBe('domain_not_allowed')
  expect(reasonFor('active', null, ['other.example.com', '*.example.com'])).toBe(undefined)
  expect(reasonFor('suspended', null, ['other.example.com'])).toBe('suspended')
  expect(reasonFor('active', now, ['other.example.com'])).toBe('expired')
})

test.each([
  'büro.example.com',
  'build_7.example.com',
  'a b.example.com',
  '.example.com',
  '-.example.com',
  '(none)',
])('the machine %s has no host name, so it matches no domain', (host) => {
  const licence = { status: 'active' as const, expires_on: null }
  expect(refusalReason({ ...licence, domains: ['*.example.com', host] }, host, now)).toBe(
    'domain_not_allowed',
  )
  expect(refusalReason({ ...licence, domains: [] }, host, now)).toBeUndefined()
})

test.each([
  ['example.com', 'example.com', true],
  ['example.com', 'app.example.com', false],
  ['example.com', 'example.com.evil.org', false],
  ['*.example.com', 'app.example.com', true],
  ['*.example.com', 'a.b.c.example.com', true],
  ['*.example.com', 'example.com', false],
  ['*.example.com', '.example.com', false],
  ['*.example.com', 'badexample.com', false],
  ['*.example.com', 'app.example.com.evil.org', false],
])('%s covers %s: %s', (domain, host, covered) => {
  expect(covers(domain, host)).toBe(covered)
})
