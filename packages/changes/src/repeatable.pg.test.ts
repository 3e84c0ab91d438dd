import { ServiceError } from '@licensing/grpc/errors'
import { CreateApiKeyResponseSchema } from '@licensing/proto/catalog'
import { lockWaits } from '@licensing/test-support/lock-waits'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { createChange } from './change.ts'
import { call, givenRepeatable } from './testing/given-repeatable.ts'

const key = 'a key'

test('calls with the same key and body make one change; a repetition gets the same answer without its secret', async () => {
  await using given = await givenRepeatable()
  expect(await given.call({ key })).toEqual({ id: '1', secret: 'a secret', replayed: false })
  expect(await given.call({ key })).toEqual({ id: '1', secret: '', replayed: true })
  expect(await given.made()).toBe(1)
  const [record] = await given.records()
  expect(record!.answer.toString('latin1')).not.toContain('secret')
})

test('a call without a key is not recorded, and is done each time', async () => {
  await using given = await givenRepeatable()
  await given.call()
  expect(await given.call()).toEqual({ id: '2', secret: 'a secret', replayed: false })
  expect(await given.records()).toHaveLength(0)
})

test('a key is valid within its account and path', async () => {
  await using given = await givenRepeatable()
  await given.call({ key })
  for (const other of [{ accountId: 'acct_2' }, { path: '/v1/others' }, { key: 'A key' }]) {
    expect(await given.call({ key, ...other })).toMatchObject({ replayed: false })
  }
  expect(await given.made()).toBe(4)
})

test('a call with another body is a mismatch, and the record stays as it is', async () => {
  await using given = await givenRepeatable()
  await given.call({ key })
  await expect(given.call({ key, body: '{"a":1}' })).rejects.toMatchObject({ code: 'idempotency_mismatch' })
  expect(await given.call({ key })).toMatchObject({ id: '1', replayed: true })
  expect(await given.made()).toBe(1)
})

test('of many concurrent calls in two replicas one makes the change, and all get its answer', async () => {
  await using given = await givenRepeatable({ replicas: 2, connections: 2 })
  const answers = await Promise.all(Array.from({ length: 20 }, () => given.call({ key })))
  expect(new Set(answers.map(({ id }) => id)).size).toBe(1)
  expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1)
  expect(answers.filter(({ secret }) => secret !== '')).toHaveLength(1)
  expect(await given.made()).toBe(1)
})

test('of many concurrent calls with two bodies, all calls with the body that came second are mismatches', async () => {
  await using given = await givenRepeatable({ replicas: 2 })
  const outcomes = await Promise.allSettled(
    Array.from({ length: 20 }, (_, at) => given.call({ key, body: at % 4 < 2 ? 'a' : 'b' })),
  )
  const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
  expect(refused.map(({ reason }) => (reason as ServiceError).code)).toEqual(
    Array(10).fill('idempotency_mismatch'),
  )
  expect(await given.made()).toBe(1)
})

test('a call that fails records nothing, and a call that waited for it is done instead', async () => {
  await using given = await givenRepeatable({ replicas: 2 })
  const entered = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  given.steps.during = async () => {
    entered.resolve()
    await release.promise
    throw new ServiceError('conflict', 'refused')
  }
  const first = given.call({ key })
  await entered.promise
  given.steps.during = () => Promise.resolve()
  const second = given.call({ key })
  // It waits again and again, for some milliseconds each time.
  await eventually(async () => expect(await lockWaits(given.sql)).toBe(1), { intervalMs: 2 })
  release.resolve()
  await expect(first).rejects.toMatchObject({ code: 'conflict' })
  expect(await second).toMatchObject({ replayed: false, secret: 'a secret' })
  expect(await given.made()).toBe(1)
})

test('a call whose connection is cut before the commit changes nothing, and its repetition is done', async () => {
  await using given = await givenRepeatable()
  given.steps.during = async (tx) => {
    const [backend] = await tx<{ pid: number }[]>`select pg_backend_pid() as pid`
    await given.sql`select pg_terminate_backend(${backend!.pid})`
    await tx`select 1`
  }
  await expect(given.call({ key })).rejects.toThrow()
  expect(await given.made()).toBe(0)
  given.steps.during = () => Promise.resolve()
  expect(await given.call({ key })).toMatchObject({ replayed: false })
  expect(await given.made()).toBe(1)
})

test('calls that wait for a call of another replica end at their deadline, and use one connection', async () => {
  await using given = await givenRepeatable({ replicas: 2, connections: 2 })
  const release = Promise.withResolvers<void>()
  const entered = Promise.withResolvers<void>()
  given.steps.during = () => {
    entered.resolve()
    return release.promise
  }
  const first = given.call({ key })
  await entered.promise
  given.steps.during = () => Promise.resolve()
  const waiting = Array.from({ length: 10 }, () => given.call({ key, deadlineMs: 500 }))
  // Both replicas still serve others.
  expect(await given.call({ key: 'another' })).toMatchObject({ replayed: false })
  expect(await given.call({ key: 'a third' })).toMatchObject({ replayed: false })
  const outcomes = await Promise.allSettled(waiting.filter((_, at) => at % 2 === 0))
  for (const outcome of outcomes) {
    const { code } = (outcome as PromiseRejectedResult).reason as { code: string }
    // The server answers `unavailable` for the database's 55P03.
    expect(['unavailable', '55P03']).toContain(code)
  }
  release.resolve()
  expect(await first).toMatchObject({ id: '1', replayed: false })
  await Promise.allSettled(waiting)
})

test('after 24 hours a key can be used again, by one of many concurrent calls', async () => {
  await using given = await givenRepeatable({ replicas: 2 })
  await given.call({ key })
  await given.sql`update idempotency_keys set created_at = now() - interval '23:59:50'`
  expect(await given.call({ key })).toMatchObject({ id: '1', replayed: true })
  await given.sql`update idempotency_keys set created_at = now() - interval '24 hours'`
  const answers = await Promise.all(Array.from({ length: 10 }, () => given.call({ key, body: 'another' })))
  expect(new Set(answers.map(({ id }) => id))).toEqual(new Set(['2']))
  expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1)
})

test('if a call fails after its commit, a repetition does the rest once', async () => {
  await using given = await givenRepeatable({ replicas: 2 })
  let done = 0
  given.steps.after = () => Promise.reject(new ServiceError('unavailable', 'later'))
  await expect(given.call({ key })).rejects.toMatchObject({ code: 'unavailable' })
  await expect(given.call({ key, body: 'x' })).rejects.toMatchObject({ code: 'idempotency_mismatch' })
  given.steps.after = async () => void (done += 1)
  expect(await given.call({ key })).toMatchObject({ id: '1', replayed: true })
  expect(await given.call({ key })).toMatchObject({ id: '1', replayed: true })
  expect([done, await given.made()]).toEqual([1, 1])
})

test('a handler that is not repeatable fails and does nothing if the call has a key', async () => {
  await using given = await givenRepeatable()
  let done = 0
  const answer = { schema: CreateApiKeyResponseSchema, toMessage: () => ({}) }
  const handler = () => createChange(given.sql)(async () => ({ id: (done += 1) }), { answer })
  await expect(call(handler as never, { key })).rejects.toThrow(/not repeatable/)
  expect(done).toBe(0)
  await call(handler as never, {})
  expect(done).toBe(1)
})
