import { expect, test } from 'vitest'
import { startHttpsReceiver } from './https-receiver.ts'
import { eventually } from './poll.ts'
import { startStack } from './stack.ts'

test('a stack delivers webhooks, and its services can be killed and started again', async () => {
  await using receiver = await startHttpsReceiver()
  await using stack = await startStack({ receiver, replicas: { gateway: 2, catalog: 2 } })
  const { api, appId, processes } = stack
  expect(stack.gatewayUrls).toHaveLength(2)
  for (const gateway of stack.gatewayUrls) {
    expect(
      await fetch(`${gateway}/v1/apps`, { headers: { authorization: `Bearer ${stack.apiKey}` } }),
    ).toMatchObject({
      status: 200,
    })
  }
  const endpoint = await api.post(`/v1/apps/${appId}/webhook-endpoints`, {
    body: { url: receiver.url(), subscribed_events: '*' },
  })
  expect(endpoint.status).toBe(201)
  const sent = await api.post(`/v1/apps/${appId}/webhook-endpoints/${String(endpoint.body['id'])}/test`)
  expect(sent.status).toBe(202)
  const [delivery] = await receiver.received(1)
  expect(JSON.parse(String(delivery?.body))).toMatchObject({
    id: sent.body['event_id'],
    type: 'webhook.test',
  })

  const [licensing] = processes.licensing
  const before = licensing?.pid
  await licensing?.kill()
  expect(await api.get(`/v1/apps/${appId}/licences`)).toMatchObject({ status: 503 })
  await licensing?.start()
  expect(licensing?.pid).not.toBe(before)
  await eventually(async () =>
    expect(await api.get(`/v1/apps/${appId}/licences`)).toMatchObject({ status: 200 }),
  )
  expect(await licensing?.stop()).toBe('exit code 0')
})

test('the Stripe simulator of a stack is there when it is asked for', async () => {
  await using stack = await startStack({ simulator: true })
  expect(await fetch(`${stack.simulator?.url}/healthz`)).toMatchObject({ status: 200 })
  const connected = await stack.api.put('/v1/processor', {
    body: { processor: 'stripe', connected_account: 'acct_1TestOfTheStack' },
  })
  expect(connected.status).toBe(200)
})
