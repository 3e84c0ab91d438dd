import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { expect, test } from 'vitest'
import { startHttpsReceiver, type HttpsReceiver } from './https-receiver.ts'

async function post(receiver: HttpsReceiver, body: Buffer): Promise<{ status: number; location?: string }> {
  const ca = await readFile(receiver.caFile, 'utf8')
  const options = { method: 'POST', ca, agent: false, headers: { 'x-test': 'yes' } }
  const sent = request(receiver.url('/path?query=1'), options).end(body)
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  const { statusCode = 0, headers } = response.resume()
  return { status: statusCode, ...(headers.location !== undefined && { location: headers.location }) }
}

test('each request is recorded with its bytes, headers and time', async () => {
  await using receiver = await startHttpsReceiver()
  const body = Buffer.from([0, 255, 10, 13])
  const before = Date.now()
  expect(await post(receiver, body)).toEqual({ status: 200 })
  const [received] = await receiver.received(1)
  expect(received).toMatchObject({
    method: 'POST',
    path: '/path?query=1',
    headers: { 'x-test': 'yes' },
    body,
  })
  expect(received?.arrivedAt).toBeGreaterThanOrEqual(before)
  await expect(receiver.received(2, 20)).rejects.toThrow('1 of 2 requests arrived')
})

test('requests get the configured answers', async () => {
  await using receiver = await startHttpsReceiver({ status: 503 })
  expect(await post(receiver, Buffer.of())).toEqual({ status: 503 })
  receiver.answerWith({ status: 302, headers: { location: 'https://elsewhere.test/' } })
  expect(await post(receiver, Buffer.of())).toEqual({ status: 302, location: 'https://elsewhere.test/' })
  receiver.answerWith((_request, index) => (index === 2 ? 'reset' : { delayMs: 50 }))
  await expect(post(receiver, Buffer.of())).rejects.toThrow('socket hang up')
  const before = Date.now()
  expect(await post(receiver, Buffer.of())).toEqual({ status: 200 })
  expect(Date.now() - before).toBeGreaterThanOrEqual(49)
})

test('a paused receiver refuses connections and resumes on the same port', async () => {
  await using receiver = await startHttpsReceiver()
  await receiver.pause()
  await expect(post(receiver, Buffer.of())).rejects.toThrow('ECONNREFUSED')
  await receiver.resume()
  expect(await post(receiver, Buffer.of())).toEqual({ status: 200 })
})
