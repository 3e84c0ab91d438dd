import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import { expect, test } from 'vitest'
import { expectNothingLost, givenShop, startLoad } from './given.ts'

const environment = { WEBHOOK_BACKOFF_SECONDS: '1', RATE_LIMIT_PER_MINUTE: '10000000', LOG_LEVEL: 'warn' }

test('two licensing services and two notifiers, killed in turn under load: order kept, no gap, no twin, none lost', async () => {
  await using receiver = await startHttpsReceiver()
  await using stack = await startStack({ receiver, environment, replicas: { licensing: 2, notifier: 2 } })
  const { planId } = await givenShop(stack, receiver)
  const load = startLoad(stack, planId, 4)
  const { licensing, notifier } = stack.processes
  for (const victim of [notifier[0]!, licensing[0]!, notifier[1]!, licensing[1]!]) {
    const before = receiver.requests.length
    await eventually(() => receiver.requests.length > before + 20)
    await victim.kill()
    await victim.start()
  }
  const before = receiver.requests.length
  await eventually(() => receiver.requests.length > before + 20)
  const done = await load.stop()
  expect([...done.refused.keys()].filter((status) => status !== 503)).toEqual([])
  await expectNothingLost(stack, receiver, done)
})
