import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { startStack } from '@licensing/test-support/stack'
import { expect, test } from 'vitest'
import { expectEveryEvent, startLoad } from './load.ts'
import { restartOneAtATime } from './restart.ts'

const two = { catalog: 2, licensing: 2, billing: 2, notifier: 2, gateway: 2 }

test('every component is restarted one by one under load: no request fails, no event is lost or out of order', async () => {
  await using receiver = await startHttpsReceiver()
  await using stack = await startStack({
    receiver,
    replicas: two,
    environment: { RATE_LIMIT_PER_MINUTE: '1000000' },
  })
  const endpoint = await stack.api.post(`/v1/apps/${stack.appId}/webhook-endpoints`, {
    body: { url: receiver.url(), subscribed_events: '*' },
  })
  expect(endpoint.status).toBe(201)

  const load = await startLoad(stack, 6)
  await restartOneAtATime(stack, load, (process) => process.start())
  const changes = await load.stop()
  expect(load.failures).toEqual([])
  await expectEveryEvent(stack, receiver, changes)
})
