import { eventually } from '@licensing/test-support/poll'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { sendInChunks } from './send-in-chunks.ts'

const json = Buffer.alloc(1_300_000, 'x')
const refused = expect.objectContaining({ code: 'unavailable' }) as Error

/** Sends an answer that nobody reads yet. */
function send(caller: string, applicationId = randomUUID()): Readable {
  const stream = sendInChunks({ caller, applicationId }, json) as Readable
  onTestFinished(async () => {
    if (stream.closed) return
    const closed = once(stream, 'close')
    stream.destroy()
    await closed
  })
  return stream
}

test('a caller that does not read holds four long answers, and has the next one when it has read one', async () => {
  const first = send('10.0.0.1')
  for (let at = 0; at < 3; at += 1) send('10.0.0.1')
  expect(() => send('10.0.0.1')).toThrow(refused)
  expect(sendInChunks({ caller: '10.0.0.1', applicationId: 'app' }, Buffer.from('{}'))).toEqual(
    Buffer.from('{}'),
  )
  send('10.0.0.2')
  expect((await buffer(first)).equals(json)).toBe(true)
  await eventually(() => void send('10.0.0.1'))
})

test('callers of one application hold half of what the gateway holds for all', () => {
  const applicationId = randomUUID()
  for (let at = 0; at < 16; at += 1) send(`10.1.0.${at}`, applicationId)
  expect(() => send('10.1.1.1', applicationId)).toThrow(refused)
  for (let at = 0; at < 16; at += 1) send(`10.2.0.${at}`)
  expect(() => send('10.2.1.1')).toThrow(refused)
})

test('a caller whose connection ends holds nothing', async () => {
  const streams = [1, 2, 3, 4].map(() => send('10.3.0.1'))
  for (const stream of streams) stream.destroy()
  await eventually(() => void send('10.3.0.1'))
})
