import { isFull } from '@licensing/test-support/drawn'
import { startHttpsReceiver, type HttpsReceiver } from '@licensing/test-support/https-receiver'
import { expectNothingLost, startLoad } from '@licensing/test-support/load'
import { eventually } from '@licensing/test-support/poll'
import { startOwnPostgres } from '@licensing/test-support/postgres'
import { startStack } from '@licensing/test-support/stack'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'

const downMs = isFull ? 20_000 : 6_000
const environment = { WEBHOOK_BACKOFF_SECONDS: '1', RATE_LIMIT_PER_MINUTE: '10000000', LOG_LEVEL: 'warn' }

/** Waits for 20 more deliveries. */
const moreDeliveries = async ({ requests }: HttpsReceiver) => {
  const before = requests.length
  await eventually(() => requests.length > before + 20)
}

test('NATS down under load: requests are answered, events arrive late, and no event is lost', async () => {
  await using receiver = await startHttpsReceiver()
  await using stack = await startStack({ receiver, environment })
  await using load = await startLoad(stack, receiver)
  await moreDeliveries(receiver)
  await stack.nats.kill()
  const before = load.requests
  // Not a poll: the test is about some time without NATS.
  await sleep(downMs)
  expect(load.requests).toBeGreaterThan(before + 50)
  expect(load.failures).toEqual([])
  await stack.nats.start()
  await load.stop()
  expect(load.failures).toEqual([])
  await expectNothingLost(stack, receiver, load)
})

// The storm, which is part of every run of CI, kills all servers and services under load too, and checks more data.
test.runIf(isFull)(
  'PostgreSQL killed and restarted under load: every service recovers, and no acknowledged change is lost',
  async () => {
    await using postgres = await startOwnPostgres()
    await using receiver = await startHttpsReceiver()
    await using stack = await startStack({ receiver, environment, postgresUrl: postgres.url() })
    await using load = await startLoad(stack, receiver)
    for (const how of ['kill', 'stop', 'kill'] as const) {
      await moreDeliveries(receiver)
      await postgres[how]()
      await postgres.start()
    }
    await moreDeliveries(receiver)
    await load.stop()
    expect(load.failures.filter(({ status }) => status !== 503)).toEqual([])
    await expectNothingLost(stack, receiver, load)
    for (const process of Object.values(stack.processes).flat()) await process.untilReady()
  },
)

test.runIf(isFull)(
  'two licensing services and two notifiers, killed in turn under load: every event is sent once and in order',
  async () => {
    await using receiver = await startHttpsReceiver()
    await using stack = await startStack({ receiver, environment, replicas: { licensing: 2, notifier: 2 } })
    await using load = await startLoad(stack, receiver)
    const { licensing, notifier } = stack.processes
    for (const victim of [notifier[0]!, licensing[0]!, notifier[1]!, licensing[1]!]) {
      await moreDeliveries(receiver)
      await victim.kill()
      await victim.start()
    }
    await moreDeliveries(receiver)
    await load.stop()
    expect(load.failures.filter(({ status }) => status !== 503)).toEqual([])
    await expectNothingLost(stack, receiver, load)
  },
)
