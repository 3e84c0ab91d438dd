import { expect, test } from 'vitest'
import { createBatcher } from './batcher.ts'

/** Records the batches. Each runs until the test ends it. */
function recorder() {
  const batches: string[][] = []
  const waiting: (() => void)[] = []
  const flush = async (batch: string[]) => {
    batches.push(batch)
    await new Promise<void>((resolve) => waiting.push(resolve))
    return batch.map((request) => `${request} done`)
  }
  const letGo = () => waiting.splice(0).forEach((resolve) => resolve())
  return { batches, flush, letGo }
}

const turn = () => new Promise((resolve) => setTimeout(resolve))
const options = { maxBatchSize: 3, isTransient: () => false }

test('requests of one turn share a batch; requests that arrive during a batch run after it', async () => {
  const { batches, flush, letGo } = recorder()
  const submit = createBatcher(flush, options)
  const first = [submit('a'), submit('b')]
  await turn()
  expect(batches).toEqual([['a', 'b']])
  const second = ['c', 'd', 'e', 'f'].map((request) => submit(request))
  await turn()
  expect(batches).toHaveLength(1)
  letGo()
  expect(await Promise.all(first)).toEqual(['a done', 'b done'])
  await turn()
  expect(batches.slice(1)).toEqual([['c', 'd', 'e']])
  letGo()
  await turn()
  letGo()
  expect(await Promise.all(second)).toEqual(['c done', 'd done', 'e done', 'f done'])
  expect(batches.slice(2)).toEqual([['f']])
})

test('queues do not wait for each other', async () => {
  const { batches, flush, letGo } = recorder()
  const submit = createBatcher(flush, { ...options, queueOf: (request: string) => request[0]! })
  const all = [submit('a1'), submit('b1'), submit('a2')]
  await turn()
  expect(batches).toEqual([['a1', 'a2'], ['b1']])
  letGo()
  await Promise.all(all)
})

test('with several slots a batch starts while another one runs', async () => {
  const { batches, flush, letGo } = recorder()
  const submit = createBatcher(flush, { ...options, slots: 2 })
  const all = [submit('a')]
  await turn()
  all.push(submit('b'))
  await turn()
  all.push(submit('c'))
  await turn()
  expect(batches).toEqual([['a'], ['b']])
  letGo()
  await turn()
  expect(batches).toEqual([['a'], ['b'], ['c']])
  letGo()
  await Promise.all(all)
})

test('if a request makes its batch fail, the others still succeed', async () => {
  const flush = async (batch: string[]) => {
    if (batch.includes('poison')) throw new Error('refused')
    return batch
  }
  const submit = createBatcher(flush, options)
  const outcomes = await Promise.allSettled([submit('a'), submit('poison'), submit('b')])
  expect(outcomes.map((outcome) => outcome.status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
})

test('a transient failure, which each request alone would have too, rejects the whole batch', async () => {
  let tries = 0
  const flush = async (): Promise<string[]> => {
    tries += 1
    throw new Error('unavailable')
  }
  const submit = createBatcher(flush, { ...options, isTransient: () => true })
  const outcomes = await Promise.allSettled([submit('a'), submit('b')])
  expect(outcomes.map((outcome) => outcome.status)).toEqual(['rejected', 'rejected'])
  expect(tries).toBe(1)
})
