import { expect, test } from 'vitest'
import { createAddressRefusal, parseNetworks } from './address.ts'
import type { Resolve } from './resolver.ts'
import { webhookUrlProblem } from './webhook-url.ts'

const names: Record<string, string[]> = {
  'example.com': ['93.184.216.34', '2606:2800:21f:cb07:6820:80da:af6b:8b2c'],
  'xn--bcher-kva.example': ['93.184.216.34'],
  'mixed.example': ['93.184.216.34', '10.0.0.1'],
  'internal.example': ['fd00::1'],
}
const resolve: Resolve = async (host) => {
  const addresses = names[host]
  if (addresses === undefined) throw Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })
  return addresses
}
const problem = (url: string, allowed = '') =>
  webhookUrlProblem(url, { resolve, refusal: createAddressRefusal(parseNetworks(allowed), () => new Set()) })

const atLength = (length: number) => 'https://example.com/'.padEnd(length, 'a')

test.each([
  'https://example.com',
  'https://example.com:8443/webhooks?token=1',
  'https://example.com:1/',
  'https://example.com:65535/',
  'https://EXAMPLE.com./webhooks',
  'https://bücher.example/haken',
  'https://93.184.216.34/',
  'https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]:444/',
  atLength(2048),
])('%s may be registered', async (url) => {
  expect(await problem(url)).toBeNull()
})

test.each([
  ['http://example.com/', 'must use https'],
  ['ftp://example.com/', 'must use https'],
  ['javascript:alert(1)', 'must use https'],
  ['example.com/webhooks', 'must be an absolute URL'],
  ['https://', 'must be an absolute URL'],
  ['', 'must be an absolute URL'],
  ['https://exa mple.com/', 'must not contain spaces'],
  [' https://example.com/', 'must not contain spaces'],
  ['https://example.com/\n', 'must not contain spaces'],
  ['https://user@example.com/', 'must not contain a user name'],
  ['https://:secret@example.com/', 'must not contain a user name'],
  ['https://example.com/#part', 'must not contain a fragment'],
  ['https://example.com/#', 'must not contain a fragment'],
  ['https://example.com:0/', 'must not name port 0'],
  [atLength(2049), 'must have at most 2048 characters'],
  [`https://example.com/${'ü'.repeat(400)}`, 'must have at most 2048 characters, also'],
  ['https://nowhere.example/', 'nowhere.example, that does not resolve'],
  ['https://mixed.example/', 'mixed.example resolves to a private address'],
  ['https://internal.example/', 'internal.example resolves to a private (unique local) address'],
])('%s may not be registered: %s', async (url, message) => {
  expect(await problem(url)).toContain(message)
})

test.each([
  '127.0.0.1',
  '127.0.0.1.',
  '127.1',
  '2130706433',
  '0x7f.1',
  '0x7f000001',
  '017700000001',
  '１２７.0.0.1',
  '127。0。0。1',
  '%31%32%37.0.0.1',
  '[::1]',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[0:0:0:0:0:ffff:7f00:0001]',
  '[64:ff9b::7f00:1]',
  '[2002:7f00:1::]',
])('loopback written as %s is seen to be loopback', async (host) => {
  expect(await problem(`https://${host}/`)).toContain('is a loopback address')
  expect(await problem(`https://${host}:8443/`, '127.0.0.0/8,::1')).toBeNull()
})

test('an IPv6 address with a zone is no URL', async () => {
  expect(await problem('https://[fe80::1%25eth0]/')).toContain('must be an absolute URL')
})

test('a host that does not resolve in time is refused', async () => {
  const never: Resolve = (_, signal) =>
    new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error))
    })
  const startedAt = performance.now()
  const message = await webhookUrlProblem('https://slow.example/', {
    resolve: never,
    refusal: () => null,
    timeoutMs: 50,
  })
  expect(message).toBe('names a host, slow.example, that did not resolve within 0.05 seconds')
  expect(performance.now() - startedAt).toBeLessThan(2000)
})

test('a name server that fails is distinguished from a name that does not exist', async () => {
  const failing: Resolve = () => Promise.reject(Object.assign(new Error('failed'), { code: 'ESERVFAIL' }))
  expect(await webhookUrlProblem('https://example.com/', { resolve: failing, refusal: () => null })).toBe(
    'names a host, example.com, that could not be resolved',
  )
})
