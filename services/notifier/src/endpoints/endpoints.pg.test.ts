import { newId } from '@licensing/database/ids'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, expect, test } from 'vitest'
import { firstPage, notifierOfFile } from '../../test/notifier.ts'
import { expectSigned } from '../../test/signature.ts'

const receiver = await startHttpsReceiver()
afterAll(() => receiver[Symbol.asyncDispose]())
const vendor = notifierOfFile()

const arrivedAt = (path: string, count: number) =>
  eventually(() => {
    const requests = receiver.requests.filter((request) => request.path === path)
    expect(requests).toHaveLength(count)
    return requests
  })

test('a secret is not listed, and is encrypted in the database', async () => {
  const notifier = vendor()
  const { calls, of, sql } = notifier
  const { id, secret } = await notifier.register(receiver.url())
  expect(secret).toMatch(/^whsec_[A-Za-z0-9_-]{43}$/)
  const { endpoints } = await calls.listEndpoints({ ...of, ...firstPage })
  expect(JSON.stringify(endpoints, (_, value: unknown) => String(value))).not.toContain(secret)
  const [row] = await sql<{ text: string }[]>`
    select encode(encrypted_secret, 'escape') as text from endpoints where id = ${id}`
  expect(row!.text).not.toContain(secret.slice(6, 20))
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
