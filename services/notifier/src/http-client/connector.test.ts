import { makeCertificate } from '@licensing/local-servers/certificates'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { connectFailure } from './failure.ts'
import type { Resolve } from './resolver.ts'
import { startReceiver, startTcpReceiver } from '../../test/receiver.ts'
import { attemptTo, givenSender } from '../../test/sender.ts'

const refusedAddress = 'the host does not resolve to public addresses only'
const ok = (_request: IncomingMessage, response: ServerResponse) => void response.end()

/** Answers with each list in turn, and then always with the last one. */
const answering = (...answers: string[][]): Resolve => {
  return async () => (answers.length > 1 ? answers.shift() : answers[0]) ?? []
}

test.each(['127.0.0.1', 'localhost', '2130706433', '[::ffff:127.0.0.1]', '[::1]', 'receiver.test'])(
  '%s is refused before a connection is made',
  async (host) => {
    await using receiver = await startReceiver(ok)
    await using sender = givenSender({ allowed: '', resolve: answering(['127.0.0.1']) })
    const result = await sender.send(attemptTo(`https://${host}:${receiver.port}/hook`))
    expect(result).toMatchObject({ outcome: 'failed', responseCode: null, error: 'blocked' })
    expect(result.detail).toBe(refusedAddress)
    expect(result.forOperator).toMatch(/ leads to (127\.0\.0\.1|.*:.*), a loopback address$/)
    expect(receiver.connections()).toBe(0)
  },
)

test.each(['127.0.0.1', '2130706433'])('the literal %s is reached if it is allowed', async (host) => {
  await using receiver = await startReceiver(ok)
  await using sender = givenSender()
  expect((await sender.send(attemptTo(`https://${host}:${receiver.port}/hook`))).outcome).toBe('delivered')
})

test('one private address among public ones blocks the host', async () => {
  await using receiver = await startReceiver(ok)
  for (const addresses of [
    ['127.0.0.1', '10.0.0.1'],
    ['fd00::1', '127.0.0.1'],
    ['127.0.0.1', '::ffff:169.254.169.254'],
  ]) {
    await using sender = givenSender({ resolve: answering(addresses) })
    expect(await sender.send(attemptTo(receiver.url))).toMatchObject({ outcome: 'failed', error: 'blocked' })
  }
  expect(receiver.connections()).toBe(0)
})

test('a name that turns private after its first answer is blocked at the next connection', async () => {
  await using receiver = await startReceiver(ok)
  await using sender = givenSender({
    allowed: '127.0.0.1/32',
    resolve: answering(['127.0.0.1'], ['127.0.0.2']),
    connectionLimits: { maxAgeMs: 0, idleLifeMs: 45_000 },
  })
  expect((await sender.send(attemptTo(receiver.url))).outcome).toBe('delivered')
  expect(await sender.send(attemptTo(receiver.url))).toMatchObject({ outcome: 'failed', error: 'blocked' })
  expect(receiver.connections()).toBe(1)
})

test('a name is resolved once for each connection, which stays at the address that was checked', async () => {
  const asked: string[] = []
  await using receiver = await startReceiver(ok, { host: '127.0.0.3' })
  await using sender = givenSender({
    resolve: async (host) => (asked.push(host) === 1 ? ['127.0.0.3'] : ['10.0.0.1']),
  })
  for (let i = 0; i < 2; i++) expect((await sender.send(attemptTo(receiver.url))).outcome).toBe('delivered')
  expect(asked).toEqual(['receiver.test'])
})

test('if an address refuses the connection, the next one is tried', async () => {
  await using receiver = await startReceiver(ok, { host: '127.0.0.9' })
  await using sender = givenSender({ resolve: answering(['127.0.0.7', '127.0.0.8', '127.0.0.9']) })
  expect((await sender.send(attemptTo(receiver.url))).outcome).toBe('delivered')
})

test('if all addresses refuse the connection, the attempt says so', async () => {
  await using receiver = await startReceiver(ok)
  await using sender = givenSender({ resolve: answering(['127.0.0.7', '127.0.0.8']) })
  expect(await sender.send(attemptTo(receiver.url))).toMatchObject({
    outcome: 'failed',
    error: 'connect',
    detail: 'the connection was refused',
  })
})

test('a lack of file descriptors is no failure of the receiver', () => {
  const error = Object.assign(new Error('connect EMFILE'), { code: 'EMFILE' })
  expect(() => connectFailure(error)).toThrow(error)
})

test('the first address has more than a second when the next ones do not connect either', async () => {
  await using receiver = await startTcpReceiver((socket) => setTimeout(() => socket.end('not TLS'), 1_500))
  await using sender = givenSender({ resolve: answering(['127.0.0.1', '127.0.0.2', '127.0.0.3']) })
  expect(await sender.send(attemptTo(receiver.url))).toMatchObject({ outcome: 'failed', error: 'tls' })
})

test('when an address accepts the connection and stays silent, the attempt ends at its deadline', async () => {
  await using receiver = await startTcpReceiver(() => {})
  await using sender = givenSender({ resolve: answering(['127.0.0.1', '127.0.0.2']), timeoutMs: 1_500 })
  expect(await sender.send(attemptTo(receiver.url))).toMatchObject({
    outcome: 'failed',
    error: 'timeout',
    detail: 'no connection within 1.5 seconds',
  })
})

test.each([
  ['has no address', async () => []],
  ['could not be resolved: queryA ESERVFAIL', () => Promise.reject(new Error('queryA ESERVFAIL'))],
])('a host that %s fails with the same sentence as a refused address', async (why, resolve) => {
  await using sender = givenSender({ resolve })
  expect(await sender.send(attemptTo('https://receiver.test/'))).toMatchObject({
    outcome: 'failed',
    error: 'dns',
    detail: refusedAddress,
    forOperator: `receiver.test ${why}`,
  })
})

test('a certificate for another host is refused', async () => {
  const other = await makeCertificate(['other.test'])
  await using receiver = await startReceiver(ok, { cert: other.certificate, key: other.key })
  await using sender = givenSender({ extraCa: other.authority })
  for (const url of [receiver.url, `https://127.0.0.1:${receiver.port}/`]) {
    expect(await sender.send(attemptTo(url))).toMatchObject({
      outcome: 'failed',
      error: 'tls',
      detail: 'the TLS handshake failed (ERR_TLS_CERT_ALTNAME_INVALID)',
    })
  }
  expect((await sender.send(attemptTo(`https://other.test:${receiver.port}/`))).outcome).toBe('delivered')
})

test('the certificate of an unknown authority is refused', async () => {
  await using receiver = await startReceiver(ok)
  await using sender = givenSender({ extraCa: undefined })
  expect(await sender.send(attemptTo(receiver.url))).toMatchObject({ outcome: 'failed', error: 'tls' })
})

test('a certificate that has ended is refused, and its successor is accepted', async () => {
  const ended = await makeCertificate(['receiver.test'], new Date(Date.now() - 60_000))
  const next = await makeCertificate(['receiver.test'])
  await using sender = givenSender({ extraCa: `${ended.authority}\n${next.authority}` })
  const sendTo = async ({ certificate: cert, key }: typeof next) => {
    await using receiver = await startReceiver(ok, { cert, key })
    return await sender.send(attemptTo(receiver.url))
  }
  expect(await sendTo(ended)).toMatchObject({
    outcome: 'failed',
    error: 'tls',
    detail: 'the TLS handshake failed (CERT_HAS_EXPIRED)',
  })
  expect((await sendTo(next)).outcome).toBe('delivered')
})

// A resumed handshake does not check the name in the certificate again.
test.each(['TLSv1.2', 'TLSv1.3'] as const)(
  'a certificate refused over %s leaves no session to resume',
  async (version) => {
    const other = await makeCertificate(['other.test'])
    await using receiver = await startReceiver(ok, {
      cert: other.certificate,
      key: other.key,
      maxVersion: version,
    })
    await using sender = givenSender({ extraCa: other.authority })
    for (let i = 0; i < 3; i++) expect((await sender.send(attemptTo(receiver.url))).error).toBe('tls')
  },
)

test('the host is named in the handshake, without a trailing dot, and an address is not', async () => {
  const names: (string | false)[] = []
  await using receiver = await startReceiver((request, response) => {
    names.push((request.socket as unknown as { servername: string | false }).servername)
    response.end(request.headers.host)
  })
  await using sender = givenSender()
  const dotted = await sender.send(attemptTo(`https://RECEIVER.test.:${receiver.port}/`))
  expect(dotted.responseExcerpt).toBe(`receiver.test:${receiver.port}`)
  await sender.send(attemptTo(`https://127.0.0.1:${receiver.port}/`))
  expect(names).toEqual(['receiver.test', false])
})
