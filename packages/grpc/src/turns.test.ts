import { expect, test } from 'vitest'
import { withCallContext } from './call-context.ts'
import { createTurns } from './turns.ts'

test('work with the same key runs one after another, in the order of the calls, also after a failure', async () => {
  const turns = createTurns('busy')
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
  const outcomes = await Promise.allSettled(['a', 'b', 'c', 'd'].map((name) => turns.inTurn('x', work(name))))
  expect(done).toEqual(['a', 'b', 'c', 'd'])
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled'])
})

test('no more work of one key than allowed runs at the same time, in the order of the calls', async () => {
  const turns = createTurns('busy', 2)
  const begun: string[] = []
  const ends = ['a', 'b', 'c', 'd'].map((name) => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const ended = turns.inTurn('x', () => (begun.push(name), promise))
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
  const turns = createTurns('busy')
  const first = Promise.withResolvers<string>()
  const waiting = turns.inTurn('x', () => first.promise)
  expect(await turns.inTurn('y', () => Promise.resolve('second'))).toBe('second')
  first.resolve('first')
  expect(await waiting).toBe('first')
})

test('work whose caller gave up while it waited is refused and does not start', async () => {
  const turns = createTurns('busy')
  let begun = 0
  const work = () => Promise.resolve((begun += 1))
  const signal = new AbortController().signal
  const late = withCallContext({ deadlineMs: Date.now() - 1, signal }, () => turns.inTurn('x', work))
  await expect(late).rejects.toMatchObject({ code: 'unavailable', message: 'busy' })
  const gone = withCallContext({ deadlineMs: Date.now() + 60_000, signal: AbortSignal.abort() }, () =>
    turns.inTurn('x', work),
  )
  await expect(gone).rejects.toMatchObject({ code: 'unavailable', message: 'busy' })
  expect(begun).toBe(0)
  await turns.inTurn('x', work)
  expect(begun).toBe(1)
})
