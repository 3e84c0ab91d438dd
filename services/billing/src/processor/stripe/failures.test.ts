import { ServiceError } from '@licensing/grpc/errors'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { PaymentProcessor } from '../processor.ts'
import { stripeProcessor } from './stripe-processor.ts'

// Possible answers of Stripe, and the answer that the caller gets for each.

interface Answer {
  status: number
  error?: { type?: string; code?: string; param?: string; message?: string }
  /** An error of OAuth. */
  oauth?: string
  text?: string
}

let answer: Answer | 'reset' | 'silent'
const server = createServer((request, response) => {
  request.resume()
  if (answer === 'silent') return
  if (answer === 'reset') return void request.socket.resetAndDestroy()
  const { status, error, oauth, text } = answer
  const body = oauth ? { error: oauth, error_description: oauth } : { error: { message: 'No.', ...error } }
  response.writeHead(status, { 'content-type': 'application/json', 'stripe-should-retry': 'false' })
  response.end(text ?? JSON.stringify(body))
})

let processor: PaymentProcessor
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  processor = stripeProcessor({
    apiBase: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    secretKey: 'sk_test_1',
    clientId: 'ca_1',
    connectBase: undefined,
    webhookSecrets: [],
  })
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

const order = {
  sessionId: 'cs_1',
  accountId: 'acct_1',
  applicationId: 'app_1',
  planId: 'pln_1',
  externalRef: 'customer',
  merchant: 'stripe:acct_1',
  priceId: 'price_1',
  mode: 'payment' as const,
  amount: 4900n,
  currency: 'usd',
  intervalMonths: 1,
  feeMinor: 245n,
  feeBps: 500,
  successUrl: 'https://vendor.example/thanks',
  cancelUrl: 'https://vendor.example/cancel',
}

const merchant = 'stripe:acct_1'
const since = new Date(0)

type AsksNobody = 'name' | 'live' | 'verify' | 'understands' | 'read' | 'consentUrl' | 'webhookNeeds'

/** Every call of the processor. */
const calls = {
  isConnected: () => processor.isConnected('acct_1'),
  redeemConsent: () => processor.redeemConsent('ac_1'),
  openCheckout: () => processor.openCheckout(order, () => 0n),
  createWebhook: () => processor.createWebhook('https://licensing.example/'),
  findCharge: () => processor.findCharge(merchant, 'ch_1'),
  chargeRecords: () => processor.chargeRecords(merchant, 'ch_1'),
  findInvoice: () => processor.findInvoice(merchant, 'in_1'),
  findSubscription: () => processor.findSubscription(merchant, 'sub_1'),
  findFee: () => processor.findFee('ch_1'),
  refundFee: () => processor.refundFee('fee_1', 1n, 'fee_2'),
  listEvents: async () => {
    const events: unknown[] = []
    for await (const event of processor.listEvents(merchant, since)) events.push(event)
    return events
  },
} satisfies Record<Exclude<keyof PaymentProcessor, AsksNobody>, () => Promise<unknown>>

type Call = keyof typeof calls

/** `asked again`: no caller waits for the answer, and background work asks again. */
type Row = [string, Answer | 'reset', Partial<Record<Call, string>>]

const unavailable = {
  isConnected: 'unavailable',
  redeemConsent: 'unavailable',
  openCheckout: 'unavailable',
  createWebhook: 'unavailable',
}

const refused = {
  isConnected: 'validation_failed /connected_account',
  redeemConsent: 'bad_request',
  openCheckout: 'validation_failed /plan_id',
  createWebhook: 'validation_failed /url',
}

const absent = {
  isConnected: 'false',
  redeemConsent: 'bad_request',
  openCheckout: 'conflict',
  createWebhook: 'validation_failed /url',
}

const lookUps = {
  findCharge: 'undefined',
  chargeRecords: 'undefined',
  findInvoice: 'undefined',
  findSubscription: 'undefined',
  refundFee: 'undefined',
}

const invalidRequest = (more: object = {}) => ({ type: 'invalid_request_error', ...more })

const rows: Row[] = [
  ['400', { status: 400, error: invalidRequest() }, refused],
  ['400 about the price', { status: 400, error: invalidRequest({ param: 'line_items[0][price]' }) }, refused],
  ['400 about the mode', { status: 400, error: invalidRequest({ param: 'mode' }) }, refused],
  [
    '400 about a return address',
    { status: 400, error: invalidRequest({ param: 'success_url', code: 'url_invalid' }) },
    { ...refused, openCheckout: 'validation_failed /success_url' },
  ],
  [
    '400 about the reference',
    { status: 400, error: invalidRequest({ param: 'client_reference_id' }) },
    { ...refused, openCheckout: 'validation_failed /external_ref' },
  ],
  [
    '400 of an amount that is too small',
    { status: 400, error: invalidRequest({ code: 'amount_too_small' }) },
    refused,
  ],
  [
    '400 of another request with the same key',
    { status: 400, error: { type: 'idempotency_error' } },
    refused,
  ],
  [
    '400 of a price that does not exist',
    { status: 400, error: invalidRequest({ code: 'resource_missing', param: 'line_items[0][price]' }) },
    { ...absent, ...lookUps, openCheckout: 'validation_failed /plan_id' },
  ],
  [
    '400 of an object that does not exist',
    { status: 400, error: invalidRequest({ code: 'resource_missing' }) },
    { ...absent, ...lookUps },
  ],
  ['400 of OAuth, for a code that was used', { status: 400, oauth: 'invalid_grant' }, refused],
  ['400 of OAuth, for an invalid code', { status: 400, oauth: 'invalid_request' }, refused],
  ['401', { status: 401, error: invalidRequest() }, unavailable],
  ['401 of OAuth, for the platform', { status: 401, oauth: 'invalid_client' }, unavailable],
  ['402', { status: 402, error: { type: 'card_error' } }, refused],
  ['403', { status: 403, error: invalidRequest() }, unavailable],
  [
    '403 of an account that is not connected',
    { status: 403, error: invalidRequest({ code: 'account_invalid' }) },
    absent,
  ],
  [
    '401 of an account that is not connected',
    { status: 401, error: invalidRequest({ code: 'account_invalid' }) },
    absent,
  ],
  ['404', { status: 404, error: invalidRequest() }, { ...absent, ...lookUps }],
  ['405', { status: 405, error: invalidRequest() }, refused],
  ['408', { status: 408, text: 'Request Timeout' }, unavailable],
  ['409', { status: 409, error: { type: 'idempotency_error', code: 'idempotency_key_in_use' } }, unavailable],
  ['413', { status: 413, error: invalidRequest() }, refused],
  ['414', { status: 414, error: invalidRequest() }, refused],
  ['422', { status: 422, error: invalidRequest() }, refused],
  ['429', { status: 429, error: invalidRequest({ code: 'rate_limit' }) }, unavailable],
  ['429 of a lock', { status: 429, error: invalidRequest({ code: 'lock_timeout' }) }, unavailable],
  ['500', { status: 500, error: { type: 'api_error' } }, unavailable],
  ['502 with a page', { status: 502, text: '<html>Bad gateway</html>' }, unavailable],
  ['503', { status: 503, error: { type: 'api_error' } }, unavailable],
  ['504', { status: 504, text: '' }, unavailable],
  ['200 without JSON', { status: 200, text: 'hello' }, unavailable],
  ['no answer: the connection is closed', 'reset', unavailable],
]

describe.each(rows)('when the processor answers %s', (_, given, expected) => {
  test.each(Object.keys(calls) as Call[])('%s', async (call) => {
    answer = given
    expect(await outcomeOf(calls[call])).toBe(expected[call] ?? 'asked again')
  })
})

test('a processor that is silent is unavailable', { timeout: 60_000 }, async () => {
  answer = 'silent'
  const names = Object.keys(unavailable) as Call[]
  const outcomes = await Promise.all(names.map((call) => outcomeOf(calls[call])))
  expect(outcomes).toEqual(names.map(() => 'unavailable'))
})

async function outcomeOf(call: () => Promise<unknown>): Promise<string> {
  try {
    return String(await call())
  } catch (error) {
    if (!(error instanceof ServiceError)) return 'asked again'
    return [error.code, ...error.errors.map(({ pointer }) => pointer)].join(' ')
  }
}
