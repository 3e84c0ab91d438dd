import { createLogger } from '@licensing/process/log'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import type { Result } from './attempt-queries.ts'
import { ResultWriter } from './attempt-writer.ts'

const log = createLogger('test', 'silent')
const unavailable = () => Object.assign(new Error('connection refused'), { code: 'ECONNREFUSED' })

function givenResult(deliveryId: string, changes: Partial<Result> = {}): Result {
  const at = new Date()
  return {
    applicationId: 'app_1',
    deliveryId,
    endpointId: 'whe_1',
    claimId: 'claim',
    isReplay: false,
    at,
    endedAt: at,
    durationMs: 1,
    delivered: true,
    responseCode: 200,
    error: null,
    responseExcerpt: 'ok',
    retryAt: null,
    attempt: 1,
    isLast: false,
    latencyMs: 1,
    ...changes,
  }
}

function startWriter(write: (results: Result[]) => Promise<void>) {
  const batches: Result[][] = []
  const writer = new ResultWriter({
    write,
    written: (results: Result[]) => batches.push(results),
    log,
  })
  return { writer, batches }
}

test('results that come together are written together, 200 at most, in the order of their ids', async () => {
  const { writer, batches } = startWriter(() => Promise.resolve())
  const ids = Array.from({ length: 450 }, (_, i) => `dlv_${String((i * 7) % 450).padStart(3, '0')}`)
  for (const id of ids) writer.add(givenResult(id))
  await writer.drain()
  expect(batches.map((batch) => batch.length)).toEqual([200, 200, 50])
  for (const batch of batches) {
    const written = batch.map(({ deliveryId }) => deliveryId)
    expect(written).toEqual(written.toSorted())
  }
})

test('a result alone is written within milliseconds', async () => {
  const { writer, batches } = startWriter(() => Promise.resolve())
  writer.add(givenResult('dlv_1'))
  await eventually(() => expect(batches).toHaveLength(1), { timeoutMs: 500, intervalMs: 1 })
})

test('two results of one delivery are never in one batch', async () => {
  const { writer, batches } = startWriter(() => Promise.resolve())
  writer.add(givenResult('dlv_1', { attempt: 1 }))
  writer.add(givenResult('dlv_1', { attempt: 2 }))
  writer.add(givenResult('dlv_2'))
  await writer.drain()
  expect(batches.map((batch) => batch.map(({ deliveryId }) => deliveryId))).toEqual([
    ['dlv_1', 'dlv_2'],
    ['dlv_1'],
  ])
})

test('while the database is unavailable results are kept', async () => {
  let isAway = true
  const { writer, batches } = startWriter(() => (isAway ? Promise.reject(unavailable()) : Promise.resolve()))
  writer.add(givenResult('dlv_1'))
  await eventually(() => expect(writer.isBehind).toBe(true), { intervalMs: 1 })
  writer.add(givenResult('dlv_2'))
  isAway = false
  await writer.drain()
  expect(
    batches
      .flat()
      .map(({ deliveryId }) => deliveryId)
      .sort(),
  ).toEqual(['dlv_1', 'dlv_2'])
  expect(writer.isBehind).toBe(false)
})

test('a result that the database refuses does not keep the others, and is written without what came of the receiver', async () => {
  const { writer, batches } = startWriter((results) =>
    results.some(({ responseExcerpt }) => responseExcerpt === 'poison')
      ? Promise.reject(new Error('invalid byte sequence'))
      : Promise.resolve(),
  )
  writer.add(givenResult('dlv_1'))
  writer.add(givenResult('dlv_2', { responseExcerpt: 'poison' }))
  writer.add(givenResult('dlv_3'))
  await writer.drain()
  const written = batches
    .flat()
    .map(({ deliveryId, responseExcerpt }) => [deliveryId, responseExcerpt] as const)
  expect(new Map(written)).toEqual(
    new Map([
      ['dlv_1', 'ok'],
      ['dlv_2', null],
      ['dlv_3', 'ok'],
    ]),
  )
})
