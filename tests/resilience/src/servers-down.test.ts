import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { startOwnPostgres } from '@licensing/test-support/postgres'
import { startStack } from '@licensing/test-support/stack'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { expectNothingLost, givenShop, startLoad } from './given.ts'

const awayMs = 20_000
const environment = { WEBHOOK_BACKOFF_SECONDS: '1', RATE_LIMIT_PER_MINUTE: '10000000', LOG_LEVEL: 'warn' }

test('NATS down for 20 s under load: requests are answered all the while, events arrive late, none is lost', async () => {
  await using receiver = await startHttpsReceiver()
  await using stack = await startStack({ receiver, environment })
  const { planId } = await givenShop(stack, receiver)
  const load = startLoad(stack, planId, 4)
  await eventually(() => receiver.requests.length > 20)
  await stack.nats.kill()
  const before = load.done.requests
  // The time itself is what is tested: 20 s without NATS.
  await sleep(awayMs)
  expect(load.done.requests).toBeGreaterThan(before + 50)
  await stack.nats.start()
  const done = await load.stop()
  expect([...done.refused]).toEqual([])
  await expectNothingLost(stack, receiver, done)
})

test('PostgreSQL killed and restarted under load: every service recovers by itself, what was answered stands', async () => {
  await using postgres = await startOwnPostgres()
  await using receiver = await startHttpsReceiver()
  await using stack = await startStack({ receiver, environment, postgresUrl: postgres.url() })
  const { planId } = await givenShop(stack, receiver)
  const load = startLoad(stack, planId, 4)
  for (const how of ['kill', 'stop', 'kill'] as const) {
    const before = receiver.requests.length
    await eventually(() => receiver.requests.length > before + 20)
    await postgres[how]()
    await postgres.start()
  }
  const before = receiver.requests.length
  await eventually(() => receiver.requests.length > before + 20)
  const done = await load.stop()
  expect([...done.refused.keys()].filter((status) => status !== 503)).toEqual([])
  await expectNothingLost(stack, receiver, done)
  for (const process of Object.values(stack.processes).flat()) {
    await process.untilReady()
  }
})
