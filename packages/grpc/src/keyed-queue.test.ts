import { expect, test } from 'vitest'
import { withCallContext } from './call-context.ts'
import { createKeyedQueue } from './keyed-queue.ts'

test('work with the same key runs one after another, in the order of the calls, also after a failure', async () => {
  const queue = createKeyedQueue('busy')
  const done: string[] = []
  let running = 0
  const work = (name: string) => async () => {
    running += 1
    expect(running).toBe(1)
    await new Promise((resolve) => setImmediate(resolve))
    running -= 1
    done.push(name)
    if (name === 'b') throw new Error('b fails')
    return name
  }
  const outcomes = await Promise.allSettled(['a', 'b', 'c', 'd'].map((name) => queue.run('x', work(name))))
  expect(done).toEqual(['a', 'b', 'c', 'd'])
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled'])
})

test('no more work of one key than allowed runs at the same time, in the order of the calls', async () => {
  const queue = createKeyedQueue('busy', 2)
  const begun: string[] = []
  const ends = ['a', 'b', 'c', 'd'].map((name) => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const ended = queue.run('x', () => (begun.push(name), promise))
    return { resolve, ended }
  })
  expect(begun).toEqual(['a', 'b'])
  ends[1]!.resolve()
  await ends[1]!.ended
  expect(begun).toEqual(['a', 'b', 'c'])
  for (const { resolve } of ends) resolve()
  await Promise.all(ends.map(({ ended }) => ended))
  expect(begun).toEqual(['a', 'b', 'c', 'd'])
})

test('work with different keys runs concurrently', async () => {
  const queue = createKeyedQueue('busy')
  const first = Promise.withResolvers<string>()
  const waiting = queue.run('x', () => first.promise)
  expect(await queue.run('y', () => Promise.resolve('second'))).toBe('second')
  first.resolve('first')
  expect(await waiting).toBe('first')
})

test('work whose caller gave up while it waited is refused and does not start', async () => {
  const queue = createKeyedQueue('busy')
  let begun = 0
  const work = () => Promise.resolve((begun += 1))
  const signal = new AbortController().signal
  const late = withCallContext({ deadlineMs: Date.now() - 1, signal }, () => queue.run('x', work))
  await expect(late).rejects.toMatchObject({ code: 'unavailable', message: 'busy' })
  const gone = withCallContext({ deadlineMs: Date.now() + 60_000, signal: AbortSignal.abort() }, () =>
    queue.run('x', work),
  )
  await expect(gone).rejects.toMatchObject({ code: 'unavailable', message: 'busy' })
  expect(begun).toBe(0)
  await queue.run('x', work)
  expect(begun).toBe(1)
})
