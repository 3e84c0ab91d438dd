import { newId } from '@licensing/database/ids'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, expect, test } from 'vitest'
import { firstPage, sharedNotifier } from '../../test/notifier.ts'
import { expectSigned } from '../../test/signature.ts'

const receiver = await startHttpsReceiver()
afterAll(() => receiver[Symbol.asyncDispose]())
const vendor = sharedNotifier()

const arrivedAt = (path: string, count: number) =>
  eventually(() => {
    const requests = receiver.requests.filter((request) => request.path === path)
    expect(requests).toHaveLength(count)
    return requests
  })

test('a new endpoint is as it is read again, without its secret, which is encrypted in the database', async () => {
  const notifier = vendor()
  const { calls, of, sql } = notifier
  const url = receiver.url('/new')
  const subscribedEvents = ' licence.created , licence.revoked,licence.created'
  const { endpoint, secret } = await calls.createEndpoint({ ...of, url, subscribedEvents })
  expect(secret).toMatch(/^whsec_[A-Za-z0-9_-]{43}$/)
  expect(endpoint).toMatchObject({
    id: expect.stringMatching(/^whe_[0-9a-z]{26}$/) as string,
    url,
    subscribedEvents: 'licence.created,licence.revoked',
    status: 'enabled',
    failingAttempts: 0,
  })
  expect(await calls.getEndpoint({ ...of, endpointId: endpoint!.id })).toEqual(endpoint)
  const { endpoints } = await calls.listEndpoints({ ...of, ...firstPage })
  expect(JSON.stringify(endpoints, (_, value: unknown) => String(value))).not.toContain(secret)
  const [row] = await sql<{ text: string }[]>`
    select encode(encrypted_secret, 'escape') as text from endpoints where id = ${endpoint!.id}`
  expect(row!.text).not.toContain(secret.slice(6, 20))
})

// tests/acceptance/src/webhook-registration.test.ts has all cases.
test.each([
  { subscribedEvents: 'licence.created,', pointer: '/subscribed_events' },
  { url: 'https://10.0.0.1/hook', pointer: '/url' },
])('a registration with $pointer that is not allowed is refused', async ({ pointer, ...wrong }) => {
  const { calls, of } = vendor()
  const request = { ...of, url: receiver.url(), subscribedEvents: '*', ...wrong }
  await expect(calls.createEndpoint(request)).rejects.toMatchObject({
    code: 'validation_failed',
    errors: [{ pointer }],
  })
})

test('an endpoint is listed only under its own application and account, newest first, page by page', async () => {
  const notifier = vendor()
  const { calls, of } = notifier
  const made: string[] = []
  for (let i = 0; i < 5; i += 1) made.unshift((await notifier.register(receiver.url())).id)
  const first = await calls.listEndpoints({ ...of, ...firstPage, limit: 3 })
  expect(first.endpoints.map(({ id }) => id)).toEqual(made.slice(0, 3))
  expect(first.hasMore).toBe(true)
  const second = await calls.listEndpoints({ ...of, limit: 3, beforeId: made[2]! })
  expect(second.endpoints.map(({ id }) => id)).toEqual(made.slice(3))
  expect(second.hasMore).toBe(false)

  for (const other of [{ accountId: newId('acct') }, { applicationId: newId('app') }]) {
    const otherScope = { ...of, ...other }
    expect((await calls.listEndpoints({ ...otherScope, ...firstPage })).endpoints).toEqual([])
    const endpointId = made[0]!
    for (const call of [calls.getEndpoint, calls.deleteEndpoint, calls.rotateSecret, calls.sendTestEvent]) {
      await expect(call({ ...otherScope, endpointId })).rejects.toMatchObject({ code: 'not_found' })
    }
  }
})

test('one of several concurrent deletions succeeds, and the deleted endpoint cannot be changed', async () => {
  const notifier = vendor()
  const { calls, of } = notifier
  const { id: endpointId } = await notifier.register(receiver.url())
  const outcomes = await Promise.allSettled(
    Array.from({ length: 5 }, () => calls.deleteEndpoint({ ...of, endpointId })),
  )
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  expect(await calls.getEndpoint({ ...of, endpointId })).toMatchObject({
    status: 'disabled',
    disabledReason: 'deleted',
    disabledAt: expect.objectContaining({ seconds: expect.any(BigInt) as bigint }) as object,
  })
  for (const call of [calls.deleteEndpoint, calls.rotateSecret, calls.sendTestEvent]) {
    await expect(call({ ...of, endpointId })).rejects.toMatchObject({
      code: 'conflict',
      members: { current: 'disabled', allowed: [] },
      message: expect.stringContaining('register a new endpoint') as string,
    })
  }
})

test('a test event is sent only to its endpoint, whatever types it is subscribed to', async () => {
  const notifier = vendor()
  const path = `/${newId('evt')}`
  const { id: endpointId, secret } = await notifier.register(receiver.url(path), 'licence.created')
  const other = await notifier.register(receiver.url('/other'))
  const { eventId } = await notifier.calls.sendTestEvent({ ...notifier.of, endpointId })
  const [request] = await arrivedAt(path, 1)
  expectSigned(request!, secret)
  expect(JSON.parse(request!.body.toString())).toMatchObject({
    id: eventId,
    type: 'webhook.test',
    data: { object: { ping: true } },
    previous: null,
  })
  await notifier.delivery({ eventId, eventType: 'webhook.test', status: 'delivered' })
  expect(await notifier.deliveries({ endpointId: other.id })).toEqual([])
})

test('after a rotation, all deliveries are signed with the new secret, also deliveries that waited', async () => {
  const notifier = vendor()
  const { calls, of, clock } = notifier
  const path = `/${newId('evt')}`
  const { id: endpointId, secret: old } = await notifier.register(receiver.url(path))
  receiver.answerWith(({ headers }) => ({ status: headers['webhook-attempt'] === '1' ? 500 : 200 }))
  await calls.sendTestEvent({ ...of, endpointId })
  await arrivedAt(path, 1)
  const { id, secret } = await calls.rotateSecret({ ...of, endpointId })
  expect(id).toBe(endpointId)
  await notifier.delivery({ attemptCount: 1 })
  clock.advance(60_000)
  const [first, second] = await arrivedAt(path, 2)
  receiver.answerWith({})
  expectSigned(first!, old)
  expectSigned(second!, secret)
})

test('a replica signs with a secret that another replica rotated', async () => {
  const notifier = vendor()
  const { calls, of } = notifier
  await using other = await notifier.replica()
  const path = `/${newId('evt')}`
  const { id: endpointId } = await notifier.register(receiver.url(path))
  await other.calls.sendTestEvent({ ...of, endpointId })
  await arrivedAt(path, 1)
  const { secret } = await calls.rotateSecret({ ...of, endpointId })
  await other.calls.sendTestEvent({ ...of, endpointId })
  const [, request] = await arrivedAt(path, 2)
  expectSigned(request!, secret)
})
