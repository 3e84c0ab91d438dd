import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { eventually } from './poll.ts'

test('the result of the first successful attempt is returned', async () => {
  let tries = 0
  expect(await eventually(() => ++tries >= 3 && tries, { intervalMs: 1 })).toBe(3)
})

test('if no attempt succeeds in time, the last failure is thrown', async () => {
  let tries = 0
  const attempt = () => {
    throw new Error(`try ${++tries}`)
  }
  const failure: unknown = await eventually(attempt, { timeoutMs: 30, intervalMs: 5 }).catch((error) => error)
  expect(failure).toMatchObject({ message: `try ${tries} (after 30 ms)` })
  expect(tries).toBeGreaterThan(1)
})

test('if an attempt ends after the timeout, one more attempt decides', async () => {
  let tries = 0
  const attempt = async () => {
    tries += 1
    await sleep(30)
    return tries > 1
  }
  expect(await eventually(attempt, { timeoutMs: 10, intervalMs: 1 })).toBe(true)
})
