import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import { entriesOf } from '../../test/events.ts'
import { notifierOfFile } from '../../test/notifier.ts'
import type { TestNotifier } from '../../test/notifier.ts'

const minute = 60_000
const hour = 60 * minute

const vendor = notifierOfFile()
const impatientVendor = notifierOfFile({ backoffSeconds: [0.02] })

async function attemptsOf({ calls, of }: TestNotifier, { id }: { id: string }) {
  return (await calls.getDelivery({ ...of, deliveryId: id })).attempts
}

test('a failed delivery is tried twelve times in two days with the waits of the interface, then the endpoint is disabled', async () => {
  await using receiver = await startHttpsReceiver({ status: 500, body: 'out of order' })
  const notifier = vendor()
  const { calls, clock, of } = notifier
  const { id: endpointId } = await notifier.register(receiver.url())
  const startedAt = clock.now()
  await notifier.happen()

  const steps = [minute, 5 * minute, 30 * minute, 2 * hour, ...Array<number>(7).fill(6 * hour)]
  for (const [i, step] of steps.entries()) {
    const delivery = await notifier.delivery({ attemptCount: i + 1 })
    expect(delivery).toMatchObject({ status: 'pending', lastResponseCode: 500 })
    const last = (await attemptsOf(notifier, delivery)).at(-1)!
    const endedAt = timestampDate(last.at!).getTime() + last.durationMs
    const waitMs = timestampDate(delivery.nextAttemptAt!).getTime() - endedAt
    expect(waitMs).toBeGreaterThan(step * (i === 0 ? 1 : 0.9) - 100)
    expect(waitMs).toBeLessThan(step * (i === 0 ? 1 : 1.1) + 100)

    const { failingAttempts } = await calls.getEndpoint({ ...of, endpointId })
    expect(failingAttempts).toBe(i + 1 >= 4 ? i + 1 : 0)
    // The next attempt is not made early.
    expect(receiver.requests).toHaveLength(i + 1)
    clock.advance(timestampDate(delivery.nextAttemptAt!).getTime() - clock.now().getTime())
  }

  const delivery = await notifier.delivery({ status: 'failed', attemptCount: 12 })
  expect(delivery.nextAttemptAt).toBeUndefined()
  const attempts = await attemptsOf(notifier, delivery)
  expect(attempts.map(({ attempt }) => attempt)).toEqual(Array.from({ length: 12 }, (_, i) => i + 1))
  expect(attempts[0]).toMatchObject({ responseCode: 500, responseExcerpt: 'out of order' })
  expect(clock.now().getTime() - startedAt.getTime()).toBeGreaterThan(40 * hour)

  const disabled = { status: 'disabled', disabledReason: 'retries_exhausted', failingAttempts: 0 }
  expect(await calls.getEndpoint({ ...of, endpointId })).toMatchObject(disabled)
  expect((await entriesOf(notifier)).at(-1)).toMatchObject({
    requestId: '',
    applicationId: of.applicationId,
    actor: 'notifier',
    operation: 'disableEndpoint',
    resourceId: endpointId,
    changes: {
      status: { from: 'enabled', to: 'disabled' },
      disabled_reason: { from: null, to: 'retries_exhausted' },
    },
  })
  clock.advance(24 * hour)
  await notifier.happen()
  const recorded = () => calls.listEvents({ accountId: of.accountId, after: 0n, limit: 0 })
  await eventually(async () => expect((await recorded()).envelopes).toHaveLength(2))
  expect(receiver.requests).toHaveLength(12)
})

test.each([
  { answer: { status: 404 }, code: 404, error: undefined },
  { answer: 'reset', code: undefined, error: expect.stringMatching(/^reset: /) as string },
] as const)('an attempt without a 2xx response fails: $answer', async ({ answer, code, error }) => {
  await using receiver = await startHttpsReceiver(answer)
  const notifier = vendor()
  await notifier.register(receiver.url())
  await notifier.happen()
  const delivery = await notifier.delivery({ attemptCount: 1 })
  expect([delivery.status, delivery.lastResponseCode]).toEqual(['pending', code])
  const [attempt] = await attemptsOf(notifier, delivery)
  expect([attempt!.responseCode, attempt!.error]).toEqual([code, error])
})

test.each([
  ['an address that may no longer be sent to', 'https://10.1.2.3/'],
  // A label of 64 letters is invalid, so no name server is asked.
  ['a name that no longer resolves', `https://${'a'.repeat(64)}.example/`],
])('%s fails the attempt, with the same error as other refused hosts', async (_, url) => {
  await using receiver = await startHttpsReceiver()
  const notifier = vendor()
  const { id } = await notifier.register(receiver.url())
  await notifier.sql`update endpoints set url = ${url}, generation = generation + 1 where id = ${id}`
  await notifier.happen()
  const [attempt] = await attemptsOf(notifier, await notifier.delivery({ attemptCount: 1 }))
  expect(attempt!.error).toBe('blocked: the host does not resolve to public addresses only')
  expect(receiver.requests).toEqual([])
})

test('Retry-After lengthens the wait', async () => {
  await using receiver = await startHttpsReceiver({ status: 429, headers: { 'retry-after': '7200' } })
  const notifier = vendor()
  await notifier.register(receiver.url())
  await notifier.happen()
  const { nextAttemptAt } = await notifier.delivery({ attemptCount: 1 })
  const waitMs = timestampDate(nextAttemptAt!).getTime() - notifier.clock.now().getTime()
  expect(waitMs).toBeGreaterThan(7_190_000)
  expect(waitMs).toBeLessThanOrEqual(7_200_000)
})

const disableAlerts = ({ sql, of }: TestNotifier) => sql<{ text: string }[]>`
  select text from alerts where kind = 'endpoint_disabled' and account_id = ${of.accountId}`

test('when one delivery has used up its attempts, the endpoint is disabled once and its other pending deliveries fail', async () => {
  await using receiver = await startHttpsReceiver({ status: 500 })
  const notifier = impatientVendor()
  const { sql } = notifier
  const { id } = await notifier.register(receiver.url())
  const events = await notifier.happen(5)
  const failed = await eventually(async () => {
    const deliveries = await notifier.deliveries({ status: 'failed' })
    expect(deliveries).toHaveLength(5)
    return deliveries
  })
  expect(Math.max(...failed.map(({ attemptCount }) => attemptCount))).toBe(12)
  const [alert, ...others] = await disableAlerts(notifier)
  expect(others).toEqual([])
  expect(alert!.text).toContain(`${id} (${receiver.url()})`)
  expect(alert!.text).toContain('status 500')
  expect(events.some((event) => alert!.text.includes(event.id))).toBe(true)
  expect(await sql`select 1 from waiting_endpoints where endpoint_id = ${id}`).toHaveLength(0)
  expect(
    await sql`
      select 1 from deliveries where endpoint_id = ${id} and (due_at is not null or claim_id is not null)`,
  ).toHaveLength(0)
  // Attempts that were in flight at that moment are recorded too.
  const recorded = () => sql`
    select 1 from attempts a join deliveries d on d.id = a.delivery_id where d.endpoint_id = ${id}`
  await eventually(async () => expect(await recorded()).toHaveLength(receiver.requests.length))
})

test('a delivery that is acknowledged while another one disables the endpoint is delivered', async () => {
  await using receiver = await startHttpsReceiver()
  const notifier = impatientVendor()
  const { id: endpointId } = await notifier.register(receiver.url())
  const [failing] = await notifier.happen()
  receiver.answerWith(({ headers }) => ({ status: headers['webhook-id'] === failing!.id ? 500 : 200 }))
  const disabled = eventually(async () =>
    expect((await notifier.calls.getEndpoint({ ...notifier.of, endpointId })).status).toBe('disabled'),
  )
  for (let i = 0; i < 40; i += 1) await notifier.happen(3)
  await disabled
  await eventually(async () => expect(await notifier.deliveries({ status: 'pending' })).toEqual([]))
  const acknowledged = new Set(receiver.requests.map(({ headers }) => headers['webhook-id']))
  acknowledged.delete(failing!.id)
  const delivered = await notifier.sql<{ id: string }[]>`
    select event_id as id from deliveries where endpoint_id = ${endpointId} and status = 'delivered'`
  expect(new Set(delivered.map(({ id }) => id))).toEqual(acknowledged)
  expect(await disableAlerts(notifier)).toHaveLength(1)
})
