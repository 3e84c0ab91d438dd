import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { keyed } from '@licensing/changes/testing/keyed'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import { startTestNotifier } from '../test/notifier.ts'

/** Calls 20 times at once, two replicas in turn. */
async function atOnce<T>(call: (at: number) => Promise<{ value: T; replayed: boolean }>) {
  const answers = await Promise.all(Array.from({ length: 20 }, (_, at) => call(at)))
  expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1)
  return { first: answers.find(({ replayed }) => !replayed)!.value, all: answers.map(({ value }) => value) }
}

test('20 concurrent calls with one key register one endpoint, and only the first gets its secret', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver })
  await using other = await notifier.replica()
  const register = (at: number, url = receiver.url()) =>
    keyed('/endpoints', () =>
      [notifier, other][at % 2]!.calls.createEndpoint({ ...notifier.of, url, subscribedEvents: '*' }),
    )
  const { first, all } = await atOnce(register)
  expect(new Set(all.map(({ endpoint }) => endpoint!.id)).size).toBe(1)
  expect(first.secret).toMatch(/^whsec_/)
  expect(all.map(({ secret }) => secret).sort()).toEqual([...Array<string>(19).fill(''), first.secret])
  const [found] = await notifier.sql`
    select from idempotency_keys where position(${Buffer.from(first.secret.slice(6))} in answer) > 0`
  expect(found).toBeUndefined()
  expect(await notifier.sql`select 1 from endpoints`).toHaveLength(1)

  // A repetition does not check the address again: it gets the recorded response.
  await receiver[Symbol.asyncDispose]()
  expect(await register(0, 'https://no-such-host.invalid/')).toMatchObject({ replayed: true })
})

test('repeated rotations with one key rotate once, and deliveries are signed with the returned secret', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver })
  await using other = await notifier.replica()
  const { id, secret } = await notifier.register(receiver.url())
  const { first, all } = await atOnce((at) =>
    keyed('/rotate', () => [notifier, other][at % 2]!.calls.rotateSecret({ ...notifier.of, endpointId: id })),
  )
  expect(first.secret).not.toBe(secret)
  expect(all.filter((answer) => answer.secret === '' && answer.id === id)).toHaveLength(19)
  await notifier.calls.sendTestEvent({ ...notifier.of, endpointId: id })
  await eventually(() => expect(receiver.requests).toHaveLength(1))
  const { body, headers } = receiver.requests[0]!
  const signature = String(headers['webhook-signature'])
  const [, t] = /^t=(\d+),/.exec(signature) ?? []
  const v1 = createHmac('sha256', first.secret).update(`${t}.`).update(body).digest('hex')
  expect(signature).toBe(`t=${t},v1=${v1}`)
})

test('a test event and a replay with one key are sent once, and a repetition sends nothing', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver })
  await using other = await notifier.replica()
  const { id } = await notifier.register(receiver.url())
  const { all } = await atOnce((at) =>
    keyed('/test', () => [notifier, other][at % 2]!.calls.sendTestEvent({ ...notifier.of, endpointId: id })),
  )
  expect(new Set(all.map(({ eventId }) => eventId)).size).toBe(1)
  const delivered = (attemptCount: number) =>
    eventually(async () => {
      const deliveries = await notifier.deliveries()
      expect(deliveries).toMatchObject([{ status: 'delivered', attemptCount }])
      return deliveries[0]!.id
    })
  const deliveryId = await delivered(1)

  const replay = (at: number) =>
    keyed('/replay', () => [notifier, other][at % 2]!.calls.replayDelivery({ ...notifier.of, deliveryId }))
  const replays = await atOnce(replay)
  expect(new Set(replays.all.map(({ id }) => id))).toEqual(new Set([deliveryId]))
  await delivered(2)
  expect(await replay(0)).toMatchObject({ replayed: true })
  // When a later event has arrived, the test event would also have been sent again.
  await notifier.calls.sendTestEvent({ ...notifier.of, endpointId: id })
  await eventually(() => expect(receiver.requests.length).toBeGreaterThanOrEqual(3))
  expect(receiver.requests).toHaveLength(3)
})

test('20 concurrent recoveries with one key recover once, and a repetition gets the same response', async () => {
  await using receiver = await startHttpsReceiver({ status: 500 })
  await using notifier = await startTestNotifier({ receiver, backoffSeconds: [600] })
  await using other = await notifier.replica()
  await notifier.happen(3)
  await eventually(async () => expect(await notifier.sql`select 1 from events`).toHaveLength(3))
  const { id } = await notifier.register(receiver.url())
  const since = timestampFromDate(new Date(notifier.clock.now().getTime() - 86_400_000))
  const recover = (at: number) =>
    keyed('/recover', () =>
      [notifier, other][at % 2]!.calls.recoverEndpoint({ ...notifier.of, endpointId: id, since }),
    )
  const { all } = await atOnce(recover)
  expect(new Set(all.map(({ deliveries }) => deliveries))).toEqual(new Set([3n]))
  expect(await notifier.deliveries()).toHaveLength(3)
  expect(await recover(0)).toMatchObject({ replayed: true, value: { deliveries: 3n } })
})

test('a refused registration stores no idempotency key', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver })
  const register = (url: string) =>
    keyed('/endpoints', () => notifier.calls.createEndpoint({ ...notifier.of, url, subscribedEvents: '*' }))
  await expect(register('https://10.0.0.1/')).rejects.toMatchObject({ code: 'validation_failed' })
  expect(await register(receiver.url())).toMatchObject({ replayed: false })
})
