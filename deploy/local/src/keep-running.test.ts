import { expect, test } from 'vitest'
import { keepRunning, type Child } from './keep-running.ts'

/** A child that the test ends with `end`. */
function givenChild(): Child & { starts: number; end(how: string): void } {
  let { promise, resolve } = Promise.withResolvers<string>()
  return {
    name: 'child',
    starts: 1,
    end: (how) => resolve(how),
    ended: () => promise,
    async restart() {
      this.starts++
      ;({ promise, resolve } = Promise.withResolvers<string>())
    },
    stop: async () => resolve('stopped'),
  }
}

test('a child that ends by itself is started again, and the operator is notified', async () => {
  const child = givenChild()
  const said: string[] = []
  const stop = keepRunning(child, (line) => said.push(line))
  child.end('SIGKILL')
  await expect.poll(() => child.starts, { timeout: 30_000 }).toBe(2)
  expect(said).toEqual(['child ended (SIGKILL); starting it again in 0.5 s'])
  await stop()
})

test('a stopped child is not started again, not even if it is stopped in the pause after a crash', async () => {
  const stopped = givenChild()
  await keepRunning(stopped, () => undefined)()
  const crashed = givenChild()
  const said: string[] = []
  const stop = keepRunning(crashed, (line) => said.push(line))
  crashed.end('SIGKILL')
  await expect.poll(() => said, { timeout: 30_000 }).toHaveLength(1)
  await stop()
  expect([stopped.starts, crashed.starts]).toEqual([1, 1])
})
