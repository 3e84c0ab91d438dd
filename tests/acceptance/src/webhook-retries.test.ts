import { apiClient } from '@licensing/test-support/api-client'
import { eventually } from '@licensing/test-support/poll'
import { runAdmin } from '@licensing/test-support/run-admin'
import { expect, test } from 'vitest'
import { givenEndpoint, verifies } from './delivery.ts'
import type { Delivery, DeliveryDetail } from './delivery.ts'
import { mailServer } from './mailbox.ts'
import { allRows, expectProblem, givenReceiver, givenStack, givenVendor, untilEnd } from './vendor.ts'

const mailbox = untilEnd(await mailServer())
const receiver = await givenReceiver()
const stack = await givenStack({
  receiver,
  environment: {
    WEBHOOK_BACKOFF_SECONDS: '0.1,0.2',
    SMTP_URL: mailbox.url,
    ALERT_EMAIL: 'ops@vendor.example',
  },
})
/** An application with an endpoint, and a function that causes an event. */
async function given(api = stack.api) {
  const vendor = await givenVendor({ ...stack, api })
  const { app, plan, issue, verb } = vendor
  const { id: planId } = await plan()
  return {
    ...vendor,
    endpoint: await givenEndpoint(vendor, receiver),
    happen: async () => verb('suspend', (await issue(planId)).id),
    deliveries: (query = '') => allRows<Delivery>(api, `${app}/webhook-deliveries${query}`),
  }
}

test('a failed delivery is retried until it is accepted, with the same bytes and a new signature', async () => {
  const { endpoint, happen, deliveries } = await given()
  receiver.answerWith(({ headers }) =>
    headers['webhook-attempt'] === '3' ? {} : { status: 503, body: 'busy' },
  )
  await happen()
  const delivered = { status: 'delivered', attempt_count: 3, last_response_code: 200 }
  await eventually(async () => expect(await deliveries()).toMatchObject([delivered]))
  const requests = endpoint.arrived()
  expect(requests.map(({ headers }) => headers['webhook-attempt'])).toEqual(['1', '2', '3'])
  for (const request of requests) {
    expect(request.body.equals(requests[0]!.body)).toBe(true)
    expect(request.headers['webhook-id']).toBe(requests[0]!.headers['webhook-id'])
    expect(verifies(request, endpoint.secret)).toBe(true)
  }
})

test('after 12 failed attempts an endpoint is disabled, with one mail, and a new endpoint gets its deliveries by replay', async () => {
  const vendor = await given()
  const { api, app, endpoint, happen, deliveries } = vendor
  receiver.answerWith(({ path }) => (path === endpoint.path ? { status: 500 } : {}))
  for (const _ of [1, 2, 3]) await happen()
  const exhausted = { status: 'disabled', disabled_reason: 'retries_exhausted' }
  await eventually(async () => expect((await api.get(endpoint.at)).body).toMatchObject(exhausted), {
    intervalMs: 100,
  })
  const failed = { status: 'failed', next_attempt_at: null }
  const rows = await deliveries()
  expect(rows).toMatchObject([failed, failed, failed])
  const last = rows.find(({ attempt_count: count }) => count === 12)!
  const { body } = await api.get<DeliveryDetail>(`${app}/webhook-deliveries/${last.id}`)
  const attempts = body.attempts.map(({ attempt }) => attempt).toSorted((a, b) => a - b)
  expect(attempts).toEqual(Array.from({ length: 12 }, (_, n) => n + 1))
  for (const { event_id } of rows) {
    const seen = endpoint.arrived().filter(({ headers }) => headers['webhook-id'] === event_id)
    expect(seen.length).toBeLessThanOrEqual(12)
  }

  const about = () => mailbox.mails.filter(({ text }) => text.includes(endpoint.id) && /disabled/i.test(text))
  await eventually(() => expect(about()).toMatchObject([{ to: ['ops@vendor.example'] }]))

  const replay = ({ id }: Delivery, body = {}) =>
    api.post<{ id: string }>(`${app}/webhook-deliveries/${id}/replay`, { body })
  for (const refused of [
    await api.delete(endpoint.at),
    await api.post(`${endpoint.at}/rotate-secret`),
    await api.post(`${endpoint.at}/test`),
    await replay(last),
  ]) {
    expectProblem(refused, 409, 'conflict')
  }
  const successor = await givenEndpoint(vendor, receiver)
  for (const row of rows) {
    const replayed = await replay(row, { endpoint_id: successor.id })
    expect(replayed.status).toBe(202)
    expect(rows.map(({ id }) => id)).not.toContain(replayed.body.id)
  }
  const contents = ({ arrived }: typeof endpoint) =>
    new Map(arrived().map(({ headers, body }) => [headers['webhook-id'], body.toString()]))
  for (const request of await successor.next(3)) expect(verifies(request, successor.secret)).toBe(true)
  expect(contents(successor)).toEqual(contents(endpoint))
  const delivered = `?endpoint=${successor.id}&status=delivered`
  await eventually(async () => expect(await deliveries(delivered)).toHaveLength(3))
  expect(about()).toHaveLength(1)
})

test('an address that the API sets gets one mail, and alerts go to it after its link was opened and confirmed', async () => {
  // An account gets at most six mails an hour, so this test has its own account.
  const options = ['--name', 'Mails', '--alert-email', 'ops@vendor.example']
  const made = await runAdmin(stack, 'create-account', ...options)
  const api = apiClient(stack.gatewayUrl, (JSON.parse(made.stdout) as { key: string }).key)
  const account = async () => (await api.get('/v1/account')).body
  expect(await account()).toMatchObject({ alert_email: 'ops@vendor.example', alert_email_confirmed: true })
  const set = { alert_email: 'new@vendor.example', alert_email_confirmed: false }
  const changed = await api.patch('/v1/account', { body: { alert_email: set.alert_email } })
  expect(changed.body).toMatchObject(set)
  /** Lets an endpoint be disabled. @returns the recipients of the mails that name it */
  const alerted = async () => {
    const { endpoint, happen } = await given(api)
    receiver.answerWith(({ path }) => (path === endpoint.path ? { status: 500 } : {}))
    await happen()
    const about = () => mailbox.mails.filter(({ text }) => text.includes(endpoint.id))
    await eventually(() => expect(about().some(({ text }) => text.includes('has been disabled'))).toBe(true))
    return [...new Set(about().flatMap(({ to }) => to))]
  }

  const toNew = () => mailbox.mails.filter(({ to }) => to.includes('new@vendor.example'))
  await eventually(() => expect(toNew()).toHaveLength(1))
  const link = /https?:\/\/\S+\?token=\S+/.exec(toNew()[0]!.text)?.[0] ?? ''
  const { pathname, search, searchParams } = new URL(link)
  expect(await alerted()).toEqual(['ops@vendor.example'])

  const headers = { accept: 'text/html' }
  const page = await fetch(`${stack.gatewayUrl}${pathname}${search}`, { headers })
  expect(page.status).toBe(200)
  const [, action = ''] = /<form method="post" action="([^"]+)">/.exec(await page.text()) ?? []
  expect(await account()).toMatchObject(set)
  const body = new URLSearchParams({ token: searchParams.get('token') ?? '' })
  const confirm = async () =>
    (await fetch(new URL(action, stack.gatewayUrl), { method: 'POST', body })).status
  expect(await confirm()).toBe(200)
  expect(await account()).toMatchObject({ ...set, alert_email_confirmed: true })
  expect(await confirm()).toBe(400)
  expect(await alerted()).toEqual(['new@vendor.example'])
})
