import { isFull } from '@licensing/test-support/drawn'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { startTestNotifier } from '../../test/notifier.ts'

const rounds = isFull ? 30 : 6
const endpointsAtOnce = 6
const deleteMs = 30_000

test('endpoints that are deleted while two replicas record and send events have no pending deliveries', async () => {
  await using receiver = await startHttpsReceiver()
  receiver.answerWith((_, index) => ({ delayMs: (index * 37) % 120 }))
  await using notifier = await startTestNotifier({ backoffSeconds: [1] })
  await using other = await notifier.replica()
  const state = { running: true }
  const happening = (async () => {
    while (state.running) await notifier.happen(4)
  })()
  for (let round = 0; round < rounds; round += 1) {
    const endpoints = await Promise.all(
      Array.from({ length: endpointsAtOnce }, (_, at) => notifier.register(receiver.url(`/${round}/${at}`))),
    )
    // Then some of their deliveries are claimed, some wait and some are in flight.
    await sleep(150)
    await Promise.all(
      endpoints.map(({ id: endpointId }, at) => {
        const { calls } = at % 2 === 0 ? notifier : other
        return calls.deleteEndpoint({ ...notifier.of, endpointId }, { timeoutMs: deleteMs })
      }),
    )
  }
  state.running = false
  await happening
  await eventually(async () => {
    const left = await notifier.sql<{ id: string }[]>`
      select d.id from deliveries d join endpoints e on e.id = d.endpoint_id
      where d.status = 'pending' and e.status = 'disabled' and not e.is_cleanup_due`
    expect(left.map(({ id }) => id)).toEqual([])
  })
})
