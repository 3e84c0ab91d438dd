import { ProductService } from '@licensing/proto/products'
import { once } from 'node:events'
import { constants, createServer } from 'node:http2'
import type { ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { connectTo } from './client.ts'
import type { CallOptions } from './client.ts'

/** A server that accepts each call and then passes its stream to `end`, with the number of streams so far. */
async function givenServer(end: (stream: ServerHttp2Stream, streams: number) => void) {
  let streams = 0
  const server = createServer()
  server.on('stream', (stream: ServerHttp2Stream) => {
    stream.on('error', () => {})
    streams += 1
    end(stream, streams)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { calls, close } = connectTo(ProductService, `127.0.0.1:${(server.address() as AddressInfo).port}`)
  return {
    call: (options: CallOptions = {}) => calls.deactivate({ activationId: 'act_1', token: 'x' }, options),
    streams: () => streams,
    [Symbol.asyncDispose]: async () => {
      close()
      server.close()
      await once(server, 'close')
    },
  }
}

const begun = (stream: ServerHttp2Stream) =>
  stream.respond({ ':status': 200, 'content-type': 'application/grpc+proto' })

test.each([
  ['after its headers, without a status', (stream: ServerHttp2Stream) => (begun(stream), stream.end())],
  ['without an answer', (stream: ServerHttp2Stream) => stream.close(constants.NGHTTP2_NO_ERROR)],
  ['with a protocol error', (stream: ServerHttp2Stream) => stream.close(constants.NGHTTP2_PROTOCOL_ERROR)],
  ['with an internal error', (stream: ServerHttp2Stream) => stream.close(constants.NGHTTP2_INTERNAL_ERROR)],
  ['as cancelled', (stream: ServerHttp2Stream) => stream.close(constants.NGHTTP2_CANCEL)],
  ['with its connection', (stream: ServerHttp2Stream) => stream.session!.destroy()],
  ['with its connection reset', (stream: ServerHttp2Stream) => stream.session!.socket.destroy()],
])('a call whose stream ends %s fails with unavailable, not with internal', async (_how, end) => {
  await using server = await givenServer(end)
  await expect(server.call({ timeoutMs: 2_000 })).rejects.toMatchObject({ code: 'unavailable' })
})

const refuse = (stream: ServerHttp2Stream) => stream.close(constants.NGHTTP2_REFUSED_STREAM)

/** Answers with an empty message. */
function answer(stream: ServerHttp2Stream): void {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc+proto' }, { waitForTrailers: true })
  stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
  stream.end(Buffer.alloc(5))
}

test('a call that servers refuse four times is repeated until it is answered', async () => {
  await using server = await givenServer((stream, streams) => (streams <= 4 ? refuse : answer)(stream))
  await server.call({ timeoutMs: 10_000 })
  expect(server.streams()).toBe(5)
})

test('a call that is always refused is unavailable at its deadline, with pauses between its tries', async () => {
  await using server = await givenServer(refuse)
  await expect(server.call({ timeoutMs: 500 })).rejects.toMatchObject({ code: 'unavailable' })
  expect(server.streams()).toBeGreaterThan(2)
  expect(server.streams()).toBeLessThanOrEqual(100)
})

test('a refused call that its caller gives up is not repeated any more', async () => {
  const controller = new AbortController()
  await using server = await givenServer((stream, streams) => {
    refuse(stream)
    if (streams === 4) controller.abort()
  })
  const call = server.call({ timeoutMs: 60_000, signal: controller.signal })
  await expect(call).rejects.toMatchObject({ code: 'unavailable' })
  expect(server.streams()).toBeLessThanOrEqual(4)
})

test('a call whose stream the server accepted is sent once', async () => {
  await using server = await givenServer((stream) => stream.close(constants.NGHTTP2_INTERNAL_ERROR))
  await expect(server.call()).rejects.toMatchObject({ code: 'unavailable' })
  expect(server.streams()).toBe(1)
})
