import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { startGateway } from '../test/gateway.ts'

test('a gateway that stops answers running requests and accepts no new ones', async () => {
  await using gateway = await startGateway()
  const gate = Promise.withResolvers<void>()
  gateway.answers.notifier.listEvents = async () => {
    await gate.promise
    return { envelopes: [], nextAfter: 7n }
  }
  const inHand = gateway.api.get('/v1/events')
  await eventually(() => gateway.calls.includes('listEvents'))
  const closed = gateway.app.close()
  await eventually(() =>
    fetch(`${gateway.url}/healthz`).then(
      () => false,
      () => true,
    ),
  )
  gate.resolve()
  const answer = await inHand
  expect(answer.status).toBe(200)
  expect(answer.body).toEqual({ data: [], next_after: 7 })
  expect(answer.headers.get('connection')).toBe('close')
  const answeredAt = Date.now()
  await closed
  // It does not wait until the caller's keep-alive connection times out.
  expect(Date.now() - answeredAt).toBeLessThan(5_000)
})

test('the gateway reports degraded and names the service if one is unavailable', async () => {
  await using gateway = await startGateway()
  const readiness = async () => {
    const answer = await fetch(`${gateway.url}/readyz`)
    return { status: answer.status, body: (await answer.json()) as { status: string; parts: object } }
  }
  expect(await readiness()).toMatchObject({ status: 200, body: { status: 'ready' } })
  await gateway.endCatalog()
  await eventually(async () =>
    expect(await readiness()).toMatchObject({
      status: 503,
      body: { status: 'degraded', parts: { catalog: 'not ready', notifier: 'ready' } },
    }),
  )
  expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200)
})

test('many concurrent requests for the readiness run each probe once', async () => {
  await using gateway = await startGateway()
  let asked = 0
  gateway.health.add('counted', () => {
    asked += 1
  })
  const answers = await Promise.all(Array.from({ length: 200 }, () => fetch(`${gateway.url}/readyz`)))
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
  // At most twice a second, also on a slow machine.
  expect(asked).toBeLessThan(20)
})
