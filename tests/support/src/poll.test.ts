import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { eventually } from './poll.ts'

test('what comes true in time is returned', async () => {
  let tries = 0
  expect(await eventually(() => ++tries >= 3 && tries, { intervalMs: 1 })).toBe(3)
})

test('what never comes true fails with the last reason', async () => {
  let tries = 0
  const attempt = () => {
    throw new Error(`try ${++tries}`)
  }
  const failure: unknown = await eventually(attempt, { timeoutMs: 30, intervalMs: 5 }).catch((error) => error)
  expect(failure).toMatchObject({ message: `try ${tries} (after 30 ms)` })
  expect(tries).toBeGreaterThan(1)
})

test('an attempt that began in time and took too long is followed by one that decides', async () => {
  let tries = 0
  const attempt = async () => {
    tries += 1
    await sleep(30)
    return tries > 1
  }
  expect(await eventually(attempt, { timeoutMs: 10, intervalMs: 1 })).toBe(true)
})

test('the pauses between tries become longer, to a fraction of a second', async () => {
  const at: number[] = []
  await eventually(() => at.push(performance.now()) === 12)
  const pauses = at.slice(1).map((time, i) => time - at[i]!)
  expect(pauses[0]).toBeGreaterThan(20)
  expect(pauses.at(-1)).toBeGreaterThan(140)
  expect(pauses.at(-1)! + pauses.at(-2)!).toBeGreaterThan(2 * pauses[0]! + 50)
})
