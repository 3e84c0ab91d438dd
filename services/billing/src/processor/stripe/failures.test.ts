import { ServiceError } from '@licensing/grpc/errors'
import { eventually } from '@licensing/test-support/poll'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { PaymentProcessor } from './stripe-processor.ts'
import { stripeProcessor } from './stripe-processor.ts'

// Possible answers of Stripe, and the answer that each caller gets.

interface Problem {
  type?: string
  code?: string
  param?: string
}

type Answer = { status: number; body: string } | 'reset' | 'silent'

const error = (status: number, problem: Problem = {}): Answer => {
  const body = JSON.stringify({ error: { message: 'No.', type: 'invalid_request_error', ...problem } })
  return { status, body }
}
const oauth = (status: number, error: string): Answer => {
  return { status, body: JSON.stringify({ error, error_description: error }) }
}

/** The answers by secret key. */
const answers = new Map<string, Answer>()
const server = createServer((request, response) => {
  request.resume()
  const answer = answers.get(request.headers.authorization!.replace('Bearer ', ''))!
  if (answer === 'silent') return
  if (answer === 'reset') return void request.socket.resetAndDestroy()
  response.writeHead(answer.status, { 'content-type': 'application/json', 'stripe-should-retry': 'false' })
  response.end(answer.body)
})
beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)))
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

const order = {
  id: 'cs_1',
  application_id: 'app_1',
  plan_id: 'pln_1',
  external_ref: 'customer',
  merchant: 'stripe:acct_1',
  price_id: 'price_1',
  mode: 'payment' as const,
  amount: 4900n,
  currency: 'usd',
  period_months: null,
  fee_minor: 245n,
  fee_bps: 500,
}

const urls = { successUrl: 'https://vendor.example/thanks', cancelUrl: 'https://vendor.example/cancel' }

const merchant = 'stripe:acct_1'

const listedEvent = {
  eventId: 'evt_1',
  type: 'charge.succeeded',
  createdAt: 0,
  body: Buffer.from('{"api_version":"2024-06-20","data":{"object":{"object":"charge","id":"ch_1"}}}'),
}

type AsksNobody = 'name' | 'live' | 'verify' | 'understands' | 'read' | 'consentUrl' | 'webhookNeeds'

/** Every call of the processor. */
const calls = {
  isConnected: (processor) => processor.isConnected('acct_1'),
  redeemConsent: (processor) => processor.redeemConsent('ac_1'),
  openCheckout: (processor) => processor.openCheckout(order, urls, () => 0n),
  createWebhook: (processor) => processor.createWebhook('https://licensing.example/'),
  findCharge: (processor) => processor.findCharge(merchant, 'ch_1'),
  chargeRecords: (processor) => processor.chargeRecords(merchant, 'ch_1'),
  findInvoice: (processor) => processor.findInvoice(merchant, 'in_1'),
  findSubscription: (processor) => processor.findSubscription(merchant, 'sub_1'),
  openSubscriptionPage: (processor) =>
    processor.openSubscriptionPage(merchant, 'sub_1', 'https://shop.example.com/'),
  findFee: (processor) => processor.findFee('ch_1'),
  refundFee: (processor) => processor.refundFee('fee_1', 1n, 'fee_2'),
  listEvents: (processor) => Array.fromAsync(processor.listEvents(merchant, new Date(0))),
  inUsedVersion: async (processor) => {
    const [event] = await processor.inUsedVersion(merchant, [listedEvent])
    return event === listedEvent ? 'as listed' : 'read'
  },
} satisfies Record<
  Exclude<keyof PaymentProcessor, AsksNobody>,
  (processor: PaymentProcessor) => Promise<unknown>
>

/** `asked again`: no caller waits for the answer, and background work asks again. */
type Outcomes = Partial<Record<keyof typeof calls, string>>

const askedAgain = Object.fromEntries(Object.keys(calls).map((call) => [call, 'asked again']))

const unavailable: Outcomes = {
  isConnected: 'unavailable',
  redeemConsent: 'unavailable',
  openCheckout: 'unavailable',
  openSubscriptionPage: 'unavailable',
  createWebhook: 'unavailable',
}

const refused: Outcomes = {
  isConnected: 'validation_failed /connected_account',
  redeemConsent: 'bad_request',
  openCheckout: 'validation_failed /plan_id',
  openSubscriptionPage: 'conflict',
  createWebhook: 'validation_failed /url',
}

const noAccount: Outcomes = { ...refused, isConnected: 'false', openCheckout: 'conflict' }

const absent: Outcomes = {
  ...noAccount,
  findCharge: 'undefined',
  chargeRecords: 'undefined',
  findInvoice: 'undefined',
  findSubscription: 'undefined',
  refundFee: 'undefined',
  inUsedVersion: 'as listed',
}

const price = 'line_items[0][price]'
const badUrl = { param: 'success_url', code: 'url_invalid' }

const rows: [string, Answer, Outcomes][] = [
  ['400', error(400), refused],
  ['400 about the price', error(400, { param: price }), refused],
  ['400 about the mode', error(400, { param: 'mode' }), refused],
  [
    '400 about a return address',
    error(400, badUrl),
    { ...refused, openCheckout: 'validation_failed /success_url' },
  ],
  [
    '400 about the reference',
    error(400, { param: 'client_reference_id' }),
    { ...refused, openCheckout: 'validation_failed /external_ref' },
  ],
  ['400 of an amount that is too small', error(400, { code: 'amount_too_small' }), refused],
  ['400 of another request with the same key', error(400, { type: 'idempotency_error' }), refused],
  [
    '400 of a price that does not exist',
    error(400, { code: 'resource_missing', param: price }),
    { ...absent, openCheckout: 'validation_failed /plan_id' },
  ],
  ['400 of an object that does not exist', error(400, { code: 'resource_missing' }), absent],
  ['400 of OAuth, for a code that was used', oauth(400, 'invalid_grant'), refused],
  ['400 of OAuth, for an invalid code', oauth(400, 'invalid_request'), refused],
  ['401', error(401), unavailable],
  ['401 of OAuth, for the platform', oauth(401, 'invalid_client'), unavailable],
  ['401 of an account that is not connected', error(401, { code: 'account_invalid' }), noAccount],
  ['402', error(402, { type: 'card_error' }), refused],
  ['403', error(403), unavailable],
  ['403 of an account that is not connected', error(403, { code: 'account_invalid' }), noAccount],
  ['404', error(404), absent],
  ['405', error(405), refused],
  ['413', error(413), refused],
  ['414', error(414), refused],
  ['422', error(422), refused],
  ['408', { status: 408, body: 'Request Timeout' }, unavailable],
  ['409', error(409, { type: 'idempotency_error', code: 'idempotency_key_in_use' }), unavailable],
  ['429', error(429, { code: 'rate_limit' }), unavailable],
  ['429 of a lock', error(429, { code: 'lock_timeout' }), unavailable],
  ['500', error(500, { type: 'api_error' }), unavailable],
  ['502 with a page', { status: 502, body: '<html>Bad gateway</html>' }, unavailable],
  ['503', error(503, { type: 'api_error' }), unavailable],
  ['504', { status: 504, body: '' }, unavailable],
  ...[400, 413, 414, 431].map((status): (typeof rows)[number] => [
    `${status} with a page of a server in front of it`,
    { status, body: '<html>Bad request</html>' },
    refused,
  ]),
  ...[401, 403, 404, 405].map((status): (typeof rows)[number] => [
    `${status} with a page of a server in front of it`,
    { status, body: '<html>No</html>' },
    unavailable,
  ]),
  ['414 without a body', { status: 414, body: '' }, refused],
  ['400 with a JSON text', { status: 400, body: '"no"' }, refused],
  ['404 with JSON of another server', { status: 404, body: '{"message":"no route"}' }, unavailable],
  ['200 with a JSON text', { status: 200, body: '"yes"' }, unavailable],
  ['200 without JSON', { status: 200, body: 'hello' }, unavailable],
  ['no answer: the connection is closed', 'reset', unavailable],
  ['no answer at all', 'silent', unavailable],
]

function processorAt(secretKey: string): PaymentProcessor {
  return stripeProcessor({
    apiBase: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    secretKey,
    clientId: 'ca_1',
    connectBase: undefined,
    webhookSecrets: [],
  })
}

test.concurrent.each(rows)(
  'when the processor answers %s, each caller gets its answer',
  async (title, answer, expected) => {
    const secretKey = `sk_test_${title.replaceAll(/\W/g, '')}`
    answers.set(secretKey, answer)
    const processor = processorAt(secretKey)
    // On a busy machine an answer may come too late for its call.
    await eventually(async () => {
      const outcomes = await Promise.all(
        Object.entries(calls).map(async ([call, ask]) => [call, await outcomeOf(() => ask(processor))]),
      )
      expect(Object.fromEntries(outcomes)).toEqual({ ...askedAgain, ...expected })
    })
  },
)

test.each([
  ['with a page', '<html>Request-URI Too Long</html>', 'the payment processor refused this account'],
  [
    'with an empty message',
    '{"error":{"type":"invalid_request_error","message":" "}}',
    'the payment processor refused this account',
  ],
  [
    'with a message',
    '{"error":{"type":"invalid_request_error","message":"No such account."}}',
    'the payment processor refused this account: No such account.',
  ],
])('an account that is refused %s is refused with a whole sentence', async (title, body, message) => {
  const secretKey = `sk_test_sentence${title.replaceAll(' ', '')}`
  answers.set(secretKey, { status: 400, body })
  const connecting = processorAt(secretKey).isConnected(`acct_${'a'.repeat(250)}`)
  await expect(connecting).rejects.toMatchObject({ errors: [{ message }] })
})

async function outcomeOf(call: () => Promise<unknown>): Promise<string> {
  try {
    return String(await call())
  } catch (error) {
    if (!(error instanceof ServiceError)) return 'asked again'
    return [error.code, ...error.errors.map(({ pointer }) => pointer)].join(' ')
  }
}
