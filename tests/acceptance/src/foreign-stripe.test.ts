import { hostAddress } from '@licensing/test-support/docker'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'

const secret = 'whsec_of_a_processor_that_knows_little'
const account = 'acct_1TVendorAcme00001'
const fixtures = new URL('../../../tools/stripe-simulator/fixtures/events/', import.meta.url)

type Json = Record<string, unknown>
interface StripeEvent {
  id: string
  account: string
  created: number
  data: { object: Json }
}

/** A processor with one connected account that can only create checkout sessions. It answers 404 to all other calls. */
async function startSparseStripe() {
  const sessions: { id: string; form: URLSearchParams; account: string }[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      response.setHeader('content-type', 'application/json')
      if (request.url === `/v1/accounts/${account}`) {
        return response.end(JSON.stringify({ id: account, object: 'account' }))
      }
      if (request.method !== 'POST' || request.url !== '/v1/checkout/sessions') {
        const error = { type: 'invalid_request_error', code: 'resource_missing', message: 'No such thing' }
        return response.writeHead(404).end(JSON.stringify({ error }))
      }
      const form = new URLSearchParams(Buffer.concat(chunks).toString())
      const id = `cs_test_sparse${sessions.length + 1}`
      sessions.push({ id, form, account: String(request.headers['stripe-account']) })
      return response.end(
        JSON.stringify({ id, object: 'checkout.session', url: `https://pay.example.com/${id}` }),
      )
    })
  })
  const host = await hostAddress()
  await once(server.listen(0, host), 'listening')
  return {
    url: `http://${host}:${(server.address() as AddressInfo).port}`,
    sessions,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await once(server.close(), 'close')
    },
  }
}

async function fixture(name: string, change: (object: Json) => Json): Promise<StripeEvent> {
  const event = JSON.parse(await readFile(new URL(`${name}.json`, fixtures), 'utf8')) as StripeEvent
  return {
    ...event,
    account,
    created: Math.floor(Date.now() / 1000),
    data: { ...event.data, object: change(event.data.object) },
  }
}

async function send(stack: Stack, event: StripeEvent, at = Math.floor(Date.now() / 1000), key = secret) {
  const body = JSON.stringify(event)
  const signature = createHmac('sha256', key).update(`${at}.${body}`).digest('hex')
  return stack.api.post('/v1/processors/stripe/events', {
    key: null,
    body,
    headers: { 'content-type': 'application/json', 'stripe-signature': `t=${at},v1=${signature}` },
  })
}

test('events of a processor whose API answers nothing still provision, downgrade and revoke, each once', async () => {
  await using stripe = await startSparseStripe()
  await using stack = await startStack({
    environment: {
      STRIPE_API_BASE: stripe.url,
      STRIPE_SECRET_KEY: 'sk_test_sparse',
      STRIPE_WEBHOOK_SECRET: secret,
    },
  })
  const { api, appId } = stack
  const at = `/v1/apps/${appId}`
  const plan = await api.post<{ id: string }>(`${at}/plans`, { body: { name: 'Pro', code: 'pro' } })
  await api.put('/v1/processor', { body: { processor: 'stripe', connected_account: account } })
  const price = { price_id: 'price_1', amount: 4900, currency: 'usd', mode: 'payment' }
  expect((await api.put(`${at}/plans/${plan.body.id}/price`, { body: price })).status).toBe(200)
  const session = await api.post<{ id: string; status: string }>(`${at}/checkout-sessions`, {
    body: {
      plan_id: plan.body.id,
      external_ref: 'cust-1001',
      success_url: 'https://vendor.example/thanks',
      cancel_url: 'https://vendor.example/cancel',
    },
  })
  expect(session.status).toBe(201)
  const [made] = stripe.sessions
  expect(made?.account).toBe(account)
  const metadata = Object.fromEntries(
    [...made!.form].flatMap(([name, value]) => {
      const key = /^metadata\[(.+)\]$/.exec(name)?.[1]
      return key ? [[key, value]] : []
    }),
  )

  const completed = await fixture('a1-checkout.session.completed.paid', (object) => ({
    ...object,
    id: made!.id,
    metadata,
    client_reference_id: made!.form.get('client_reference_id'),
  }))
  for (const wrong of [
    await send(stack, completed, undefined, 'whsec_another'),
    await send(stack, completed, Math.floor(Date.now() / 1000) - 400),
    await send(stack, completed, Math.floor(Date.now() / 1000) + 400),
  ]) {
    expect([wrong.status, wrong.body.code]).toEqual([400, 'bad_request'])
  }
  // The event arrives twice at once and a third time later, and has one effect.
  const answers = await Promise.all([send(stack, completed), send(stack, completed)])
  expect(answers.map(({ status }) => status)).toEqual([200, 200])
  await eventually(async () => {
    expect((await api.get(`${at}/checkout-sessions/${session.body.id}`)).body).toMatchObject({
      status: 'provisioned',
    })
  })
  expect((await send(stack, completed)).status).toBe(200)
  const licences = await api.get<{ data: { id: string; status: string }[] }>(`${at}/licences`)
  expect(licences.body.data).toMatchObject([{ status: 'active', external_ref: 'cust-1001' }])
  const licenceId = licences.body.data[0]!.id
  const statusIs = (status: string) =>
    eventually(async () =>
      expect((await api.get(`/v1/licences/${licenceId}`)).body).toMatchObject({ status }),
    )

  expect(
    (await send(stack, await fixture('a3-refund.created.first-partial', (object) => object))).status,
  ).toBe(200)
  expect(
    (await send(stack, await fixture('a4-charge.refunded.partial', (object) => ({ ...object, metadata }))))
      .status,
  ).toBe(200)
  await statusIs('downgraded')
  expect(
    (await send(stack, await fixture('a6-charge.refunded.now-full', (object) => ({ ...object, metadata }))))
      .status,
  ).toBe(200)
  expect(
    (await send(stack, await fixture('a5-refund.created.second-partial', (object) => object))).status,
  ).toBe(200)
  await statusIs('revoked')
  const feed = await eventually(async () => {
    const { body } = await api.get<{ data: { type: string; data: { object: Json } }[] }>('/v1/events?after=0')
    expect(body.data).toHaveLength(6)
    return body.data
  })
  expect(feed.map(({ type }) => type).toSorted()).toEqual([
    'licence.created',
    'licence.downgraded',
    'licence.revoked',
    'payment.succeeded',
    'refund.processed',
    'refund.processed',
  ])
  const refunds = feed.filter(({ type }) => type === 'refund.processed').map(({ data }) => data.object)
  expect(refunds).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ licence_id: licenceId, amount: 1900, lane: 'partial_refund' }),
      expect.objectContaining({ licence_id: licenceId, amount: 3000, lane: 'full_refund' }),
    ]),
  )
})
