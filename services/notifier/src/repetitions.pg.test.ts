import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { keyed } from '@licensing/changes/testing/keyed'
import type { ServiceClient } from '@licensing/grpc/client'
import type { NotifierService } from '@licensing/proto/notifier'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { TestNotifier } from '../test/notifier.ts'
import { startTestNotifier } from '../test/notifier.ts'
import { expectSigned } from '../test/signature.ts'

type Calls = ServiceClient<typeof NotifierService>

const running = new AsyncDisposableStack()
let shared: TestNotifier
let replicas: Calls[]
beforeAll(async () => {
  shared = running.use(await startTestNotifier({ backoffSeconds: [600] }))
  replicas = [shared.calls, running.use(await shared.replica()).calls]
})
afterAll(() => running.disposeAsync())

/** A call with an idempotency key. `atOnce` makes it 20 times at once, at two replicas in turn. */
function repeatable<T>(path: string, call: (calls: Calls) => Promise<T>) {
  const repeat = (at = 0) => keyed(path, () => call(replicas[at % 2]!))
  return {
    repeat,
    async atOnce() {
      const answers = await Promise.all(Array.from({ length: 20 }, (_, at) => repeat(at)))
      const [first, ...others] = answers.filter(({ replayed }) => !replayed)
      expect(others).toEqual([])
      return { first: first!.value, all: answers.map(({ value }) => value) }
    },
  }
}

test('20 concurrent calls with one key register one endpoint, and only the first gets its secret', async () => {
  await using receiver = await startHttpsReceiver()
  const { of, sql } = shared.another()
  const register = (url: string) =>
    repeatable(`/${of.accountId}/endpoints`, (calls) =>
      calls.createEndpoint({ ...of, fields: { url, subscribedEvents: '*' } }),
    )
  // A refusal stores no key.
  const refused = register('https://10.0.0.1/').repeat()
  await expect(refused).rejects.toMatchObject({ code: 'validation_failed' })
  const { first, all } = await register(receiver.url()).atOnce()
  expect(new Set(all.map(({ endpoint }) => endpoint!.id)).size).toBe(1)
  expect(first.secret).toMatch(/^whsec_/)
  expect(all.map(({ secret }) => secret).sort()).toEqual([...Array<string>(19).fill(''), first.secret])
  const [found] = await sql`
    select from idempotency_keys where position(${Buffer.from(first.secret.slice(6))} in answer) > 0`
  expect(found).toBeUndefined()
  expect(await sql`select 1 from endpoints where account_id = ${of.accountId}`).toHaveLength(1)

  // A repetition does not check the address again: it gets the recorded response.
  await receiver[Symbol.asyncDispose]()
  expect(await register('https://no-such-host.invalid/').repeat()).toMatchObject({ replayed: true })
})

test('a rotation, a test event and a replay with one key happen once, and a repetition sends nothing', async () => {
  await using receiver = await startHttpsReceiver()
  const notifier = shared.another()
  const { calls, of } = notifier
  const { id: endpointId, secret } = await notifier.register(receiver.url())
  const named = { ...of, endpointId }
  const rotations = await repeatable(`/${endpointId}/rotate`, (calls) => calls.rotateSecret(named)).atOnce()
  expect(rotations.first.secret).not.toBe(secret)
  const repeated = rotations.all.filter((answer) => answer.secret === '' && answer.id === endpointId)
  expect(repeated).toHaveLength(19)

  const tests = await repeatable(`/${endpointId}/test`, (calls) => calls.sendTestEvent(named)).atOnce()
  expect(new Set(tests.all.map(({ eventId }) => eventId)).size).toBe(1)
  const { id: deliveryId } = await notifier.delivery({ status: 'delivered', attemptCount: 1 })
  expect(await notifier.deliveries()).toHaveLength(1)
  expectSigned(receiver.requests[0]!, rotations.first.secret)

  const replay = repeatable(`/${deliveryId}/replay`, (calls) => calls.replayDelivery({ ...of, deliveryId }))
  const replays = await replay.atOnce()
  expect(new Set(replays.all.map(({ id }) => id))).toEqual(new Set([deliveryId]))
  await notifier.delivery({ status: 'delivered', attemptCount: 2 })
  expect(await replay.repeat()).toMatchObject({ replayed: true })
  // When a later event has arrived, the test event would also have been sent again.
  await calls.sendTestEvent(named)
  await receiver.received(3)
  expect(receiver.requests).toHaveLength(3)
})

test('20 concurrent recoveries with one key recover once, and a repetition gets the same response', async () => {
  await using receiver = await startHttpsReceiver({ status: 500 })
  const notifier = shared.another()
  const { of, sql, clock } = notifier
  await notifier.happen(3)
  const recorded = () => sql`select 1 from events where account_id = ${of.accountId}`
  await eventually(async () => expect(await recorded()).toHaveLength(3))
  const { id: endpointId } = await notifier.register(receiver.url())
  const since = timestampFromDate(new Date(clock.now().getTime() - 86_400_000))
  const recovery = repeatable(`/${endpointId}/recover`, (calls) =>
    calls.recoverEndpoint({ ...of, endpointId, since }),
  )
  const { all } = await recovery.atOnce()
  expect(new Set(all.map(({ deliveries }) => deliveries))).toEqual(new Set([3n]))
  expect(await notifier.deliveries()).toHaveLength(3)
  expect(await recovery.repeat()).toMatchObject({ replayed: true, value: { deliveries: 3n } })
})
