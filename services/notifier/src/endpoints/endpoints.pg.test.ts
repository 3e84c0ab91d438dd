import { newId } from '@licensing/database/ids'
import { ServiceError } from '@licensing/grpc/errors'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { createHmac } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { TestNotifier } from '../../test/notifier.ts'
import { firstPage, startTestNotifier } from '../../test/notifier.ts'

let receiver: Awaited<ReturnType<typeof startHttpsReceiver>>
let notifier: TestNotifier
beforeAll(async () => {
  receiver = await startHttpsReceiver()
  notifier = await startTestNotifier({ receiver })
})
afterAll(async () => {
  await notifier[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})

async function refusal(call: Promise<unknown>): Promise<ServiceError> {
  const error = await call.then(
    () => undefined,
    (error: unknown) => error,
  )
  if (!(error instanceof ServiceError)) throw new Error('the call was not refused', { cause: error })
  return error
}

test('a new endpoint is enabled, and its secret is shown once', async () => {
  const { calls, of } = notifier
  const { endpoint, secret } = await calls.createEndpoint({
    ...of,
    url: receiver.url('/new'),
    subscribedEvents: ' licence.created , licence.revoked,licence.created',
  })
  expect(secret).toMatch(/^whsec_[A-Za-z0-9_-]{43}$/)
  expect(endpoint).toMatchObject({
    id: expect.stringMatching(/^whe_[0-9a-z]{26}$/) as string,
    url: receiver.url('/new'),
    subscribedEvents: 'licence.created,licence.revoked',
    status: 'enabled',
    failingAttempts: 0,
  })
  const found = await calls.getEndpoint({ ...of, endpointId: endpoint!.id })
  expect(found).toEqual(endpoint)
  expect(
    JSON.stringify(await calls.listEndpoints({ ...of, ...firstPage }), (_, value: unknown) => String(value)),
  ).not.toContain(secret)
})

test('secrets are encrypted in the database', async () => {
  const { secret } = await notifier.register(receiver.url())
  const rows = await notifier.sql<{ text: string }[]>`
    select encode(encrypted_secret, 'escape') as text from endpoints`
  expect(rows.length).toBeGreaterThan(0)
  for (const { text } of rows) expect(text).not.toContain(secret.slice(6, 20))
})

test.each(['', ' ', ',', 'licence.created,', 'licence.unknown', 'LICENCE.CREATED', '*,licence.created'])(
  'subscribed events that are not * or known types are refused: %j',
  async (subscribedEvents) => {
    const { calls, of } = notifier
    const error = await refusal(calls.createEndpoint({ ...of, url: receiver.url(), subscribedEvents }))
    expect(error).toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/subscribed_events', message: error.message }],
    })
  },
)

test.each([
  'http://example.com/hook',
  'https://10.0.0.1/hook',
  'https://[fd00::1]/hook',
  'https://user:password@example.com/hook',
  'https://example.com/hook#part',
  'https://does-not-exist.invalid/hook',
  'not a url',
])('a URL that deliveries may not go to is refused: %j', async (url) => {
  const error = await refusal(notifier.calls.createEndpoint({ ...notifier.of, url, subscribedEvents: '*' }))
  expect(error).toMatchObject({
    code: 'validation_failed',
    errors: [{ pointer: '/url', message: error.message }],
  })
})

test('an endpoint is listed only under its own application and account, newest first, page by page', async () => {
  const { calls } = notifier
  const of = { accountId: newId('acct'), applicationId: newId('app') }
  const made: string[] = []
  for (let i = 0; i < 5; i += 1) {
    const { endpoint } = await calls.createEndpoint({ ...of, url: receiver.url(), subscribedEvents: '*' })
    made.unshift(endpoint!.id)
  }
  const first = await calls.listEndpoints({ ...of, ...firstPage, limit: 3 })
  expect(first.endpoints.map(({ id }) => id)).toEqual(made.slice(0, 3))
  expect(first.hasMore).toBe(true)
  const second = await calls.listEndpoints({ ...of, limit: 3, beforeId: made[2]! })
  expect(second.endpoints.map(({ id }) => id)).toEqual(made.slice(3))
  expect(second.hasMore).toBe(false)

  for (const otherScope of [
    { ...of, accountId: newId('acct') },
    { ...of, applicationId: newId('app') },
  ]) {
    expect((await calls.listEndpoints({ ...otherScope, ...firstPage })).endpoints).toEqual([])
    const endpointId = made[0]!
    for (const call of [calls.getEndpoint, calls.deleteEndpoint, calls.rotateSecret, calls.sendTestEvent]) {
      expect((await refusal(call({ ...otherScope, endpointId }))).code).toBe('not_found')
    }
  }
})

test('a deleted endpoint stays listed as disabled, and cannot be changed', async () => {
  const { calls, of } = notifier
  const { id: endpointId } = await notifier.register(receiver.url())
  await calls.deleteEndpoint({ ...of, endpointId })
  expect(await calls.getEndpoint({ ...of, endpointId })).toMatchObject({
    status: 'disabled',
    disabledReason: 'deleted',
    disabledAt: expect.objectContaining({ seconds: expect.any(BigInt) as bigint }) as object,
  })
  for (const call of [calls.deleteEndpoint, calls.rotateSecret, calls.sendTestEvent]) {
    const error = await refusal(call({ ...of, endpointId }))
    expect(error.code).toBe('conflict')
    expect(error.members).toEqual({ current: 'disabled', allowed: [] })
    expect(error.message).toContain('register a new endpoint')
  }
})

test('one of several concurrent deletions succeeds', async () => {
  const { calls, of } = notifier
  const { id: endpointId } = await notifier.register(receiver.url())
  const outcomes = await Promise.allSettled(
    Array.from({ length: 5 }, () => calls.deleteEndpoint({ ...of, endpointId })),
  )
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
})

test('a test event is signed and sent only to its endpoint, whatever types it is subscribed to', async () => {
  const { calls, of } = notifier
  const [path, other] = [`/${newId('evt')}`, `/${newId('evt')}`]
  const { id: endpointId, secret } = await notifier.register(receiver.url(path), 'licence.created')
  await notifier.register(receiver.url(other), '*')
  const { eventId } = await calls.sendTestEvent({ ...of, endpointId })

  const delivery = await eventually(async () => {
    const [delivery] = await notifier.deliveries({ endpointId })
    expect(delivery?.status).toBe('delivered')
    return delivery!
  })
  expect(delivery).toMatchObject({
    eventId,
    eventType: 'webhook.test',
    attemptCount: 1,
    lastResponseCode: 200,
  })
  const [request, ...more] = receiver.requests.filter((request) => request.path === path)
  expect(more).toEqual([])
  expect(JSON.parse(request!.body.toString())).toMatchObject({
    id: eventId,
    type: 'webhook.test',
    data: { object: { ping: true } },
    previous: null,
  })
  const [, t] = /^t=(\d+),v1=/.exec(String(request!.headers['webhook-signature'])) ?? []
  const v1 = createHmac('sha256', secret).update(`${t}.`).update(request!.body).digest('hex')
  expect(request!.headers['webhook-signature']).toBe(`t=${t},v1=${v1}`)
  expect(receiver.requests.some((request) => request.path === other)).toBe(false)
})

test('after a rotation, all deliveries are signed with the new secret, also deliveries that waited', async () => {
  const { calls, of, clock } = notifier
  const path = `/${newId('evt')}`
  const { id: endpointId, secret: old } = await notifier.register(receiver.url(path))
  const at = () => receiver.requests.filter((request) => request.path === path)
  receiver.answerWith((request) => ({ status: request.path === path && at().length === 1 ? 500 : 200 }))
  await calls.sendTestEvent({ ...of, endpointId })
  await eventually(() => expect(at()).toHaveLength(1))
  const { id, secret } = await calls.rotateSecret({ ...of, endpointId })
  expect(id).toBe(endpointId)
  expect(secret).not.toBe(old)
  await eventually(async () => expect((await notifier.deliveries({ endpointId }))[0]!.attemptCount).toBe(1))
  clock.advance(60_000)
  const [first, second] = await eventually(() => {
    expect(at()).toHaveLength(2)
    return at()
  })
  const isSignedWith = (key: string, { headers, body }: NonNullable<typeof first>) => {
    const [, t] = /^t=(\d+),/.exec(String(headers['webhook-signature'])) ?? []
    const mac = createHmac('sha256', key).update(`${t}.`).update(body).digest('hex')
    return headers['webhook-signature'] === `t=${t},v1=${mac}`
  }
  expect(isSignedWith(old, first!)).toBe(true)
  expect(isSignedWith(secret, second!)).toBe(true)
})

test('a replica signs with a secret that another replica rotated', async () => {
  const { calls, of } = notifier
  await using other = await notifier.replica()
  const path = `/${newId('evt')}`
  const { id: endpointId } = await notifier.register(receiver.url(path))
  await other.calls.sendTestEvent({ ...of, endpointId })
  await eventually(() => expect(receiver.requests.some((request) => request.path === path)).toBe(true))
  const { secret } = await calls.rotateSecret({ ...of, endpointId })
  await other.calls.sendTestEvent({ ...of, endpointId })
  const request = await eventually(() => {
    const [, second] = receiver.requests.filter((request) => request.path === path)
    if (!second) throw new Error('there is no second request')
    return second
  })
  const [, t] = /^t=(\d+),/.exec(String(request.headers['webhook-signature'])) ?? []
  const mac = createHmac('sha256', secret).update(`${t}.`).update(request.body).digest('hex')
  expect(request.headers['webhook-signature']).toBe(`t=${t},v1=${mac}`)
})
