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
const problem = async (url: string, { allowed = '', resolveBy = resolve, timeoutMs = 3000 } = {}) => {
  const refusal = createAddressRefusal(parseNetworks(allowed), () => new Set())
  let reason: string | null = null
  const refused = (host: string, why: string) => (reason = `${host}: ${why}`)
  const message = await webhookUrlProblem(url, { resolve: resolveBy, refusal, refused, timeoutMs })
  return { message, reason }
}
const refusedAddress =
  'must lead to a public address: its host must resolve to public addresses only, within 3 seconds'

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
  expect(await problem(url)).toEqual({ message: null, reason: null })
})

test.each([
  ['http://example.com/', 'must use https'],
  ['ftp://example.com/', 'must use https'],
  ['javascript:alert(1)', 'must use https'],
  ['example.com/webhooks', 'must be an absolute URL'],
  ['https://', 'must be an absolute URL'],
  ['https://[fe80::1%25eth0]/', 'must be an absolute URL'],
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
])('%s may not be registered: %s', async (url, message) => {
  expect((await problem(url)).message).toContain(message)
})

const never: Resolve = (_, signal) =>
  new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error))
  })
const failing: Resolve = () =>
  Promise.reject(Object.assign(new Error('queryA ESERVFAIL'), { code: 'ESERVFAIL' }))

// The answer is the same for all hosts, so it does not show which names exist and to which addresses they resolve.
test.each([
  ['https://nowhere.example/', 'nowhere.example: it could not be resolved: Error: no such name', resolve],
  ['https://broken.example/', 'broken.example: it could not be resolved: Error: queryA ESERVFAIL', failing],
  ['https://empty.example/', 'empty.example: it has no address', async () => []],
  ['https://mixed.example/', 'mixed.example: 10.0.0.1 is a private address', resolve],
  ['https://internal.example/', 'internal.example: fd00::1 is a private (unique local) address', resolve],
  ['https://169.254.169.254/', '169.254.169.254: 169.254.169.254 is a link-local address', resolve],
] as const)(
  '%s is refused with one sentence, and the operator learns: %s',
  async (url, reason, resolveBy) => {
    expect(await problem(url, { resolveBy })).toEqual({ message: refusedAddress, reason })
  },
)

test.each([
  '127.0.0.1',
  '127.0.0.1.',
  '2130706433',
  '0x7f.1',
  '017700000001',
  '１２７.0.0.1',
  '127。0。0。1',
  '%31%32%37.0.0.1',
  '[::1]',
  '[::ffff:127.0.0.1]',
  '[64:ff9b::7f00:1]',
  '[2002:7f00:1::]',
])('loopback written as %s is recognised', async (host) => {
  const { message, reason } = await problem(`https://${host}/`)
  expect(message).toBe(refusedAddress)
  expect(reason).toContain('is a loopback address')
  expect((await problem(`https://${host}:8443/`, { allowed: '127.0.0.0/8,::1' })).message).toBeNull()
})

test('a host that does not resolve in time is refused with the same sentence', async () => {
  const startedAt = performance.now()
  expect(await problem('https://slow.example/', { resolveBy: never, timeoutMs: 50 })).toEqual({
    message: refusedAddress.replace('3 seconds', '0.05 seconds'),
    reason: 'slow.example: it did not resolve in time',
  })
  expect(performance.now() - startedAt).toBeLessThan(2000)
})
