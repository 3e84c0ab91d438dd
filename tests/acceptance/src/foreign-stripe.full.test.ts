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
import type { Envelope } from './delivery.ts'
import { expectProblem, expectStatus, givenVendor } from './vendor.ts'

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
  const { api, app, plan: givenPlan, detail, licences } = await givenVendor(stack)
  const plan = await givenPlan()
  await api.put('/v1/processor', { body: { processor: 'stripe', connected_account: account } })
  const price = { price_id: 'price_1', amount: 4900, currency: 'usd', mode: 'payment' }
  expectStatus(await api.put(`${app}/plans/${plan.id}/price`, { body: price }), 200)
  const urls = { success_url: 'https://vendor.example/thanks', cancel_url: 'https://vendor.example/cancel' }
  const order = { plan_id: plan.id, external_ref: 'cust-1001', ...urls }
  const session = await api.post<{ id: string }>(`${app}/checkout-sessions`, { body: order })
  expectStatus(session, 201)
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
    expectProblem(wrong, 400, 'bad_request')
  }
  // The event arrives twice at once and a third time later, and has one effect.
  const answers = await Promise.all([send(stack, completed), send(stack, completed)])
  for (const answer of answers) expectStatus(answer, 200)
  await eventually(async () => {
    const { body } = await api.get(`${app}/checkout-sessions/${session.body.id}`)
    expect(body).toMatchObject({ status: 'provisioned' })
  })
  expectStatus(await send(stack, completed), 200)
  const rows = await licences()
  expect(rows).toMatchObject([{ status: 'active', external_ref: 'cust-1001' }])
  const licence_id = rows[0]!.id
  const becomes = (status: string) =>
    eventually(async () => expect(await detail(licence_id)).toMatchObject({ status }))
  const sends = async (name: string, fields = {}) => {
    const event = await fixture(name, (object) => ({ ...object, ...fields }))
    expectStatus(await send(stack, event), 200)
  }
  await sends('a3-refund.created.first-partial')
  await sends('a4-charge.refunded.partial', { metadata })
  await becomes('downgraded')
  await sends('a6-charge.refunded.now-full', { metadata })
  await sends('a5-refund.created.second-partial')
  await becomes('revoked')
  const feed = await eventually(async () => {
    const { body } = await api.get<{ data: Envelope[] }>('/v1/events?after=0')
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
  expect(refunds.toSorted((one, other) => Number(one['amount']) - Number(other['amount']))).toMatchObject([
    { licence_id, amount: 1900, lane: 'partial_refund' },
    { licence_id, amount: 3000, lane: 'full_refund' },
  ])
})
