import type { Delivery } from '@licensing/proto/notifier'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import { startTestNotifier } from '../../test/notifier.ts'
import type { TestNotifier } from '../../test/notifier.ts'

const minute = 60_000
const hour = 60 * minute

async function afterAttempt(notifier: TestNotifier, attempt: number, endpointId?: string): Promise<Delivery> {
  return eventually(async () => {
    const [delivery] = await notifier.deliveries(endpointId === undefined ? {} : { endpointId })
    expect(delivery?.attemptCount).toBe(attempt)
    return delivery!
  })
}

const detail = (notifier: TestNotifier, { id }: Delivery) =>
  notifier.calls.getDelivery({ ...notifier.of, deliveryId: id })

test('a failed delivery is tried twelve times in two days with the waits of the interface, then the endpoint is disabled', async () => {
  await using receiver = await startHttpsReceiver({ status: 500, body: 'out of order' })
  await using notifier = await startTestNotifier({ receiver })
  const { clock, of } = notifier
  const { id: endpointId } = await notifier.register(receiver.url())
  const startedAt = clock.now()
  await notifier.happen()

  const steps = [minute, 5 * minute, 30 * minute, 2 * hour, ...Array<number>(7).fill(6 * hour)]
  for (const [i, step] of steps.entries()) {
    const delivery = await afterAttempt(notifier, i + 1)
    expect(delivery).toMatchObject({ status: 'pending', lastResponseCode: 500 })
    const { attempts } = await detail(notifier, delivery)
    const last = attempts.at(-1)!
    const endedAt = timestampDate(last.at!).getTime() + last.durationMs
    const waitMs = timestampDate(delivery.nextAttemptAt!).getTime() - endedAt
    expect(waitMs).toBeGreaterThan(step * (i === 0 ? 1 : 0.9) - 100)
    expect(waitMs).toBeLessThan(step * (i === 0 ? 1 : 1.1) + 100)

    const { failingAttempts } = await notifier.calls.getEndpoint({ ...of, endpointId })
    expect(failingAttempts).toBe(i + 1 >= 4 ? i + 1 : 0)
    // The next attempt is not made early.
    expect(receiver.requests).toHaveLength(i + 1)
    clock.advance(timestampDate(delivery.nextAttemptAt!).getTime() - clock.now().getTime())
  }

  const delivery = await eventually(async () => {
    const [delivery] = await notifier.deliveries()
    expect(delivery?.status).toBe('failed')
    return delivery!
  })
  expect(delivery.attemptCount).toBe(12)
  expect(delivery.nextAttemptAt).toBeUndefined()
  const { attempts } = await detail(notifier, delivery)
  expect(attempts.map(({ attempt }) => attempt)).toEqual(Array.from({ length: 12 }, (_, i) => i + 1))
  expect(attempts[0]).toMatchObject({ responseCode: 500, responseExcerpt: 'out of order' })
  expect(clock.now().getTime() - startedAt.getTime()).toBeGreaterThan(40 * hour)

  const endpoint = await notifier.calls.getEndpoint({ ...of, endpointId })
  expect(endpoint).toMatchObject({
    status: 'disabled',
    disabledReason: 'retries_exhausted',
    failingAttempts: 0,
  })
  clock.advance(24 * hour)
  await notifier.happen()
  await eventually(async () =>
    expect(
      (await notifier.calls.listEvents({ accountId: of.accountId, after: 0n, limit: 0 })).envelopes,
    ).toHaveLength(2),
  )
  expect(receiver.requests).toHaveLength(12)
})

test('attempts of a delivery have the same id and body, but different times, signatures and numbers', async () => {
  await using receiver = await startHttpsReceiver()
  receiver.answerWith((_, index) => ({ status: index < 2 ? 503 : 204 }))
  await using notifier = await startTestNotifier({ receiver, backoffSeconds: [1] })
  await notifier.register(receiver.url())
  const [event] = await notifier.happen()
  const requests = await receiver.received(3)
  expect(requests.map(({ headers }) => headers['webhook-attempt'])).toEqual(['1', '2', '3'])
  expect(new Set(requests.map(({ body }) => body.toString())).size).toBe(1)
  expect(new Set(requests.map(({ headers }) => headers['webhook-id']))).toEqual(new Set([event!.id]))
  const times = requests.map(({ headers }) =>
    Number(/^t=(\d+),/.exec(String(headers['webhook-signature']))![1]),
  )
  expect(times[2]! - times[0]!).toBeGreaterThanOrEqual(2)
  const delivery = await afterAttempt(notifier, 3)
  expect(delivery).toMatchObject({ status: 'delivered', lastResponseCode: 204 })
  expect(delivery.nextAttemptAt).toBeUndefined()
})

test.each([
  {
    answer: { status: 301, headers: { location: 'https://localhost:1/' } },
    code: 301,
    error: 'redirects are not followed',
    minMs: 0,
  },
  { answer: { status: 404 }, code: 404, error: undefined, minMs: 0 },
  {
    answer: 'reset',
    code: undefined,
    error: expect.stringMatching(/^reset: /) as string,
    minMs: 0,
  },
  {
    answer: 'hang',
    code: undefined,
    error: expect.stringMatching(/^timeout: /) as string,
    minMs: 4_900,
  },
] as const)(
  'an attempt without a 2xx response within 5 seconds fails: $code $answer',
  async ({ answer, code, error, minMs }) => {
    await using receiver = await startHttpsReceiver(answer)
    await using notifier = await startTestNotifier({ receiver })
    await notifier.register(receiver.url())
    await notifier.happen()
    const delivery = await afterAttempt(notifier, 1)
    expect(delivery.status).toBe('pending')
    expect(delivery.lastResponseCode).toBe(code)
    const { attempts } = await detail(notifier, delivery)
    expect(attempts[0]!.responseCode).toBe(code)
    expect(attempts[0]!.error).toEqual(error)
    expect(attempts[0]!.durationMs).toBeGreaterThanOrEqual(minMs)
  },
)

test.each([
  ['an address that may no longer be sent to', 'https://10.1.2.3/'],
  // A label of 64 letters is invalid, so no name server is asked.
  ['a name that no longer resolves', `https://${'a'.repeat(64)}.example/`],
])('%s fails the attempt, with the same error as other refused hosts', async (_, url) => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver })
  const { id } = await notifier.register(receiver.url())
  await notifier.sql`update endpoints set url = ${url}, generation = generation + 1 where id = ${id}`
  await notifier.happen()
  const delivery = await afterAttempt(notifier, 1)
  const { attempts } = await detail(notifier, delivery)
  expect(attempts[0]!.error).toBe('blocked: the host does not resolve to public addresses only')
  expect(receiver.requests).toEqual([])
})

test('Retry-After lengthens the wait', async () => {
  await using receiver = await startHttpsReceiver({ status: 429, headers: { 'retry-after': '7200' } })
  await using notifier = await startTestNotifier({ receiver })
  await notifier.register(receiver.url())
  await notifier.happen()
  const { nextAttemptAt } = await afterAttempt(notifier, 1)
  const waitMs = timestampDate(nextAttemptAt!).getTime() - Date.now()
  expect(waitMs).toBeGreaterThan(7_190_000)
  expect(waitMs).toBeLessThanOrEqual(7_200_000)
})

test('when one delivery has used up its attempts, the endpoint is disabled once and its other pending deliveries fail', async () => {
  await using receiver = await startHttpsReceiver({ status: 500 })
  await using notifier = await startTestNotifier({ receiver, backoffSeconds: [0.05] })
  const { id: endpointId } = await notifier.register(receiver.url())
  await notifier.happen(5)
  await eventually(async () => {
    const deliveries = await notifier.deliveries({ endpointId })
    expect(deliveries).toHaveLength(5)
    expect(deliveries.every(({ status }) => status === 'failed')).toBe(true)
  })
  expect(Math.max(...(await notifier.deliveries()).map(({ attemptCount }) => attemptCount))).toBe(12)
  expect(await notifier.sql`select 1 from alerts where kind = 'endpoint_disabled'`).toHaveLength(1)
  expect(await notifier.sql`select 1 from waiting_endpoints`).toHaveLength(0)
  expect(
    await notifier.sql`select 1 from deliveries where due_at is not null or claim_id is not null`,
  ).toHaveLength(0)
  // Attempts that were in flight at that moment are recorded too.
  await eventually(async () =>
    expect(await notifier.sql`select 1 from attempts`).toHaveLength(receiver.requests.length),
  )
})

test('a delivery that is acknowledged while another one disables the endpoint is delivered', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver, backoffSeconds: [0.02] })
  const { id: endpointId } = await notifier.register(receiver.url())
  const [failing] = await notifier.happen()
  receiver.answerWith(({ headers }) => ({ status: headers['webhook-id'] === failing!.id ? 500 : 200 }))
  const disabled = eventually(async () =>
    expect((await notifier.calls.getEndpoint({ ...notifier.of, endpointId })).status).toBe('disabled'),
  )
  for (let i = 0; i < 40; i += 1) await notifier.happen(3)
  await disabled
  await eventually(async () => {
    const pending = await notifier.deliveries({ status: 'pending' })
    expect(pending).toEqual([])
  })
  const acknowledged = new Set(receiver.requests.map(({ headers }) => headers['webhook-id']))
  acknowledged.delete(failing!.id)
  const delivered = await notifier.sql<{ id: string }[]>`
    select event_id as id from deliveries where status = 'delivered'`
  expect(new Set(delivered.map(({ id }) => id))).toEqual(acknowledged)
  expect(await notifier.sql`select 1 from alerts where kind = 'endpoint_disabled'`).toHaveLength(1)
})
