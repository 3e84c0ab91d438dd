import { createLogger } from '@licensing/process/log'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { givenAttempt } from '../../test/attempts.ts'
import type { FinishedAttempt } from './attempt-queries.ts'
import { AttemptWriter } from './attempt-writer.ts'

const log = createLogger('test', 'silent')
const unavailable = () => Object.assign(new Error('connection refused'), { code: 'ECONNREFUSED' })

function startWriter(record: (attempts: FinishedAttempt[]) => Promise<void>) {
  const batches: FinishedAttempt[][] = []
  const writer = new AttemptWriter({
    record,
    recorded: (attempts: FinishedAttempt[]) => batches.push(attempts),
    log,
  })
  return { writer, batches }
}

test('attempts that end together are recorded together, up to 200, in the order of their ids', async () => {
  const { writer, batches } = startWriter(() => Promise.resolve())
  const ids = Array.from({ length: 450 }, (_, i) => `dlv_${String((i * 7) % 450).padStart(3, '0')}`)
  for (const id of ids) writer.add(givenAttempt(id))
  await writer.drain()
  expect(batches.map((batch) => batch.length)).toEqual([200, 200, 50])
  for (const batch of batches) {
    const written = batch.map(({ deliveryId }) => deliveryId)
    expect(written).toEqual(written.toSorted())
  }
})

test('a single attempt is recorded within milliseconds', async () => {
  const { writer, batches } = startWriter(() => Promise.resolve())
  writer.add(givenAttempt('dlv_1'))
  await eventually(() => expect(batches).toHaveLength(1), { timeoutMs: 500, intervalMs: 1 })
})

test('two attempts of one delivery are never in one batch', async () => {
  const { writer, batches } = startWriter(() => Promise.resolve())
  writer.add(givenAttempt('dlv_1', { attempt: 1 }))
  writer.add(givenAttempt('dlv_1', { attempt: 2 }))
  writer.add(givenAttempt('dlv_2'))
  await writer.drain()
  expect(batches.map((batch) => batch.map(({ deliveryId }) => deliveryId))).toEqual([
    ['dlv_1', 'dlv_2'],
    ['dlv_1'],
  ])
})

test('while the database is unavailable attempts stay in memory', async () => {
  let isUnavailable = true
  const { writer, batches } = startWriter(() =>
    isUnavailable ? Promise.reject(unavailable()) : Promise.resolve(),
  )
  writer.add(givenAttempt('dlv_1'))
  await eventually(() => expect(writer.isBehind).toBe(true), { intervalMs: 1 })
  writer.add(givenAttempt('dlv_2'))
  isUnavailable = false
  await writer.drain()
  const written = batches.flat().map(({ deliveryId }) => deliveryId)
  expect(written.sort()).toEqual(['dlv_1', 'dlv_2'])
  expect(writer.isBehind).toBe(false)
})

test('an attempt that the database refuses is recorded without the response, and does not delay the others', async () => {
  const { writer, batches } = startWriter((attempts) =>
    attempts.some(({ responseExcerpt }) => responseExcerpt === 'poison')
      ? Promise.reject(new Error('invalid byte sequence'))
      : Promise.resolve(),
  )
  writer.add(givenAttempt('dlv_1', { responseExcerpt: 'ok' }))
  writer.add(givenAttempt('dlv_2', { responseExcerpt: 'poison' }))
  writer.add(givenAttempt('dlv_3', { responseExcerpt: 'ok' }))
  await writer.drain()
  const written = batches.flat().map(({ deliveryId, responseExcerpt }) => [deliveryId, responseExcerpt])
  expect(Object.fromEntries(written)).toEqual({ dlv_1: 'ok', dlv_2: null, dlv_3: 'ok' })
})
