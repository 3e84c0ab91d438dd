import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { excerptOf, retryAfterSeconds } from './exchange.ts'
import { startTlsReceiver } from '../../test/receiver.ts'
import { attemptTo, givenSender } from '../../test/sender.ts'

test('an excerpt of any bytes is valid UTF-8 of at most 1 KiB without NULs', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 700 }), { maxLength: 4 }), (chunks) => {
      const text = excerptOf(chunks.map((chunk) => Buffer.from(chunk))) ?? ''
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(1024)
      expect(text.isWellFormed()).toBe(true)
      expect(text).not.toContain('\0')
    }),
  )
})

test('a text is not changed, and is cut between two characters', () => {
  expect(excerptOf([Buffer.from('Grüße, '), Buffer.from('世界')])).toBe('Grüße, 世界')
  expect(excerptOf([Buffer.from(`a${'ü'.repeat(600)}`)])).toBe(`a${'ü'.repeat(511)}`)
  expect(excerptOf([Buffer.from('a\0b')])).toBe('ab')
  expect(excerptOf([])).toBeNull()
})

test.each([
  ['120', 120],
  ['0', 0],
  ['Sat, 01 Feb 2025 00:00:30 GMT', 90],
  ['Saturday, 01-Feb-25 00:00:30 GMT', 90],
  ['Sat Feb  1 00:00:30 2025', 90],
  // In the past, and in the far future.
  ['Fri, 31 Jan 2025 00:00:00 GMT', 0],
  ['Fri, 31 Jan 2031 00:00:00 GMT', 86_400],
  ['9999999999', 86_400],
  ...[null, '', 'soon', '-1', '1.5', '1e3', '99999999999', 'Foo, 99 Bar 2025 00:00:00 GMT'].map(
    (header) => [header, null] as const,
  ),
] as const)('a Retry-After of %s is understood as %s seconds', (header, seconds) => {
  expect(retryAfterSeconds(header, Date.parse('2025-01-31T23:59:00Z'))).toBe(seconds)
})

interface Row {
  name: string
  /** Bytes as Latin 1; several are written one after the other. */
  answer: string | string[]
  /** Whether the receiver closes the connection after its answer. */
  ends?: boolean
  becomes: 'delivered' | Partial<Record<'responseCode' | 'error' | 'detail' | 'responseExcerpt', unknown>>
}

const lines = (...texts: string[]) => texts.map((text) => `${text}\r\n`).join('')
const ok = `${lines('HTTP/1.1 200 OK', 'Content-Length: 2', '')}ok`
const okWith = (...headers: string[]) => `${lines('HTTP/1.1 200 OK', ...headers, 'Content-Length: 2', '')}ok`
const chunkedWith = (...headers: string[]) => lines('HTTP/1.1 200 OK', ...headers, '', '2', 'ok', '0', '')
const proceed = lines('HTTP/1.1 100 Continue', '')
const broken = (how: string) => ({
  responseCode: null,
  error: 'protocol',
  detail: `the answer was not valid HTTP/1.1: ${how}`,
})

const accepted: Row[] = [
  { name: 'with a length', answer: ok, becomes: 'delivered' },
  { name: 'of HTTP/1.0 that ends with its connection', answer: 'HTTP/1.0 200 OK\r\n\r\nok', ends: true, becomes: 'delivered' },
  { name: 'without a reason phrase', answer: `${lines('HTTP/1.1 200', 'Content-Length: 2', '')}ok`, becomes: 'delivered' },
  { name: 'with a reason phrase in Latin 1', answer: `${lines('HTTP/1.1 200 Gr\xfcn', 'Content-Length: 2', '')}ok`, becomes: 'delivered' },
  { name: 'after an empty line', answer: `\r\n${ok}`, becomes: 'delivered' },
  { name: 'after 100 Continue', answer: proceed + ok, becomes: 'delivered' },
  { name: 'after 100 Continue with headers, in pieces', answer: ['HTTP/1.1 10', '0 Continue\r\nServer: Microsoft-IIS/10.0\r\n', '\r\nHTTP/1.1 200 OK\r\nContent-Le', 'ngth: 2\r\n\r\no', 'k'], becomes: 'delivered' },
  { name: 'after 102, 103 and 199', answer: lines('HTTP/1.1 102 Processing', '', 'HTTP/1.1 103 Early Hints', 'Link: </a>; rel=preload', '', 'HTTP/1.1 199 Other', '') + ok, becomes: 'delivered' },
  { name: 'after eight times 100 Continue', answer: proceed.repeat(8) + ok, becomes: 'delivered' },
  { name: 'with LF line endings', answer: 'HTTP/1.1 200 OK\nContent-Length: 2\n\nok', becomes: 'delivered' },
  { name: 'with mixed line endings, after 100 Continue', answer: 'HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nok', becomes: 'delivered' },
  { name: 'with a length before chunked', answer: chunkedWith('Content-Length: 2', 'Transfer-Encoding: chunked'), becomes: 'delivered' },
  { name: 'with a wrong length after chunked', answer: chunkedWith('Transfer-Encoding: chunked', 'Content-Length: 22'), becomes: 'delivered' },
  { name: 'with the encoding identity', answer: okWith('Transfer-Encoding: identity'), ends: true, becomes: 'delivered' },
  { name: 'with one header of 20 KB', answer: okWith(`X-Long: ${'a'.repeat(20_000)}`), becomes: 'delivered' },
  { name: 'with headers of 60 KB', answer: okWith(...Array.from({ length: 60 }, (_, i) => `X-${i}: ${'a'.repeat(1_000)}`)), becomes: 'delivered' },
  { name: 'with a header over two lines', answer: okWith('X-Long: one', '  two'), becomes: 'delivered' },
  { name: 'with UTF-8 and control characters in a header', answer: okWith('X-Odd: Gr\xc3\xbc\xc3\x9fe \x01'), becomes: 'delivered' },
  { name: 'with more bytes than its length', answer: `${ok}more`, becomes: 'delivered' },
  { name: 'with a chunk that cannot be read', answer: lines('HTTP/1.1 200 OK', 'Transfer-Encoding: chunked', '', 'zz', ''), becomes: { responseCode: 200, error: null, responseExcerpt: null } },
] // prettier-ignore

const refused: Row[] = [
  { name: 'of 500 after 100 Continue', answer: `${proceed + lines('HTTP/1.1 500 No', 'Content-Length: 2', '')}no`, becomes: { responseCode: 500, error: 'status', responseExcerpt: 'no' } },
  { name: 'that never comes after 100 Continue', answer: proceed, becomes: { responseCode: null, error: 'timeout', detail: 'no answer within 1.5 seconds' } },
  { name: 'after nine times 100 Continue', answer: proceed.repeat(9) + ok, becomes: { responseCode: null, error: 'protocol', detail: 'more than 8 informational (1xx) responses came before the answer' } },
  { name: 'of 101', answer: lines('HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade', ''), becomes: broken('101 Switching Protocols, which was not asked for') },
  { name: 'with headers of 70 KB', answer: okWith(`X-Long: ${'a'.repeat(70_000)}`), becomes: broken('headers of more than 64 KiB') },
  { name: 'with the same length twice', answer: okWith('Content-Length: 2'), becomes: broken('Duplicate Content-Length') },
  { name: 'with two lengths', answer: okWith('Content-Length: 3'), becomes: broken('Duplicate Content-Length') },
  { name: 'with a length that is no number', answer: lines('HTTP/1.1 200 OK', 'Content-Length: two', ''), becomes: broken('Invalid character in Content-Length') },
  { name: 'with a header that has no colon', answer: okWith('nonsense'), becomes: broken('Invalid header token') },
  { name: 'with a broken header after its length', answer: lines('HTTP/1.1 200 OK', 'Content-Length: 2', 'nonsense', ''), becomes: broken('Invalid header token') },
  { name: 'with a blank before a colon', answer: okWith('X-Odd : a'), becomes: broken('Invalid header token') },
  { name: 'with CR line endings', answer: 'HTTP/1.1 200 OK\rContent-Length: 2\r\rok', becomes: broken('Expected LF after CR') },
  { name: 'with a status of two digits', answer: lines('HTTP/1.1 20 OK', ''), becomes: broken('Invalid status code') },
  { name: 'with a status of four digits', answer: lines('HTTP/1.1 2000 OK', ''), becomes: broken('Invalid response status') },
  { name: 'with the version of HTTP/2 in text', answer: lines('HTTP/2 200', ''), becomes: broken('Expected dot') },
  { name: 'in frames of HTTP/2', answer: '\x00\x00\x06\x04\x00\x00\x00\x00\x00', becomes: broken('Expected HTTP/, RTSP/ or ICE/') },
  { name: 'of another protocol', answer: 'SSH-2.0-OpenSSH_9.6\r\n', becomes: broken('Expected HTTP/, RTSP/ or ICE/') },
  { name: 'without a head', answer: '<html>ok</html>', becomes: broken('Expected HTTP/, RTSP/ or ICE/') },
  { name: 'that ends in its head', answer: 'HTTP/1.1 200 OK\r\nContent-', ends: true, becomes: { responseCode: null, error: 'reset', detail: 'the connection was closed before the head of the answer was complete' } },
  { name: 'that ends after 100 Continue', answer: proceed, ends: true, becomes: { responseCode: null, error: 'reset', detail: 'the connection was closed before the head of the answer was complete' } },
] // prettier-ignore

const delivered = { responseCode: 200, error: null, detail: null, responseExcerpt: 'ok' }

async function answered({ answer, ends = false }: Row) {
  await using receiver = await startTlsReceiver((socket) => {
    socket.once('data', () => {
      for (const piece of [answer].flat()) socket.write(piece, 'latin1')
      if (ends) socket.end()
    })
  })
  await using sender = givenSender({ timeoutMs: 1_500 })
  const result = await sender.send(attemptTo(receiver.url))
  expect(sender.stats.inFlight).toBe(0)
  return result
}

test.each(accepted)('a response $name is accepted', async (row) => {
  const { becomes } = row
  expect(await answered(row)).toMatchObject({
    outcome: 'delivered',
    ...(becomes === 'delivered' ? delivered : becomes),
  })
})

test.each(refused)('a response $name fails, and the attempt has the reason', async (row) => {
  expect(await answered(row)).toMatchObject({ outcome: 'failed', ...(row.becomes as object) })
})
