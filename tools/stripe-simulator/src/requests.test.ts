import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  givenPayment,
  givenPrice,
  shapeOf,
  startWorld,
  vendor,
  type Paid,
  type World,
} from './test-support.ts'

let world: World
let paid: Paid
let price: string
beforeAll(async () => {
  world = await startWorld()
  paid = await givenPayment(world, { payment_intent_data: { application_fee_amount: 245 } })
  price = await givenPrice(world.simulator)
})
afterAll(() => world[Symbol.asyncDispose]())

type Answer = { status: number; body: { error?: { code?: string; param?: string; message?: string } } }

/** Sends any parameters, which the typed client would not allow: `ask('POST', '/v1/refunds', 'charge=ch_1')`. */
async function ask(method: 'GET' | 'POST', path: string, parameters = '', key?: string): Promise<Answer> {
  const query = method === 'GET' && parameters !== '' ? `?${parameters}` : ''
  const response = await fetch(`${world.simulator.url}${path}${query}`, {
    method,
    headers: {
      authorization: 'Bearer sk_test_simulated',
      ...(!path.includes('application_fees') && { 'stripe-account': vendor }),
      ...(method === 'POST' && { 'content-type': 'application/x-www-form-urlencoded' }),
      ...(key !== undefined && { 'idempotency-key': key }),
    },
    ...(method === 'POST' && { body: parameters }),
  })
  return { status: response.status, body: (await response.json()) as Answer['body'] }
}

const session = (more: string): string =>
  `mode=payment&success_url=http://127.0.0.1/&line_items[0][price]=${price}&${more}`

const subscription = (more: string): string => session(more).replace('mode=payment', 'mode=subscription')

describe('a parameter that Stripe does not have is refused', () => {
  test.each([
    ['GET', '/v1/accounts/acct_1', 'unheard_of'],
    ['GET', '/v1/application_fees', 'unheard_of'],
    ['GET', '/v1/charges', 'unheard_of'],
    ['GET', '/v1/charges/ch_1', 'unheard_of'],
    ['GET', '/v1/checkout/sessions', 'unheard_of'],
    ['GET', '/v1/checkout/sessions/cs_1', 'unheard_of'],
    ['GET', '/v1/disputes', 'unheard_of'],
    ['GET', '/v1/events', 'unheard_of'],
    ['GET', '/v1/invoice_payments', 'unheard_of'],
    ['GET', '/v1/invoices', 'unheard_of'],
    ['GET', '/v1/invoices/in_1', 'unheard_of'],
    ['GET', '/v1/payment_intents/pi_1', 'unheard_of'],
    ['GET', '/v1/prices/price_1', 'unheard_of'],
    ['GET', '/v1/refunds', 'unheard_of'],
    ['GET', '/v1/subscriptions/sub_1', 'unheard_of'],
    ['POST', '/v1/checkout/sessions/cs_1/expire', 'unheard_of'],
    ['POST', '/v1/refunds', 'unheard_of'],
    ['POST', '/v1/webhook_endpoints', 'unheard_of'],
    // Parameters that other versions or other calls have.
    ['GET', '/v1/application_fees/fee_1/refunds', 'created'],
    ['GET', '/v1/webhook_endpoints', 'created'],
    ['GET', '/v1/charges', 'invoice'],
  ] as const)('%s %s?%s', async (method, path, name) => {
    expect(await ask(method, path, `${name}=1`)).toMatchObject({
      status: 400,
      body: {
        error: {
          type: 'invalid_request_error',
          code: 'parameter_unknown',
          param: name,
          message: `Received unknown parameter: ${name}`,
        },
      },
    })
  })

  test.each([
    'line_items[0][unheard_of]',
    'line_items[0][price_data][unheard_of]',
    'payment_intent_data[unheard_of]',
    'payment_intent_data[application_fee_percent]',
  ])('within a checkout session: %s', async (name) => {
    const answer = await ask('POST', '/v1/checkout/sessions', session(`${name}=1`))
    expect(answer).toMatchObject({
      status: 400,
      body: { error: { code: 'parameter_unknown', param: name } },
    })
  })

  test('within the data of a subscription', async () => {
    const name = 'subscription_data[application_fee_amount]'
    const answer = await ask('POST', '/v1/checkout/sessions', subscription(`${name}=1`))
    expect(answer.body.error).toMatchObject({ code: 'parameter_unknown', param: name })
  })
})

test.each([
  ['/v1/checkout/sessions', () => session('locale=de'), 'locale'],
  ['/v1/checkout/sessions', () => session('payment_intent_data[transfer_group]=g'), undefined],
  ['/v1/refunds', () => `charge=${paid.charge}&reverse_transfer=true`, 'reverse_transfer'],
])(
  'a parameter that Stripe has and the simulator does not support is refused: %s',
  async (path, parameters, name) => {
    const { status, body } = await ask('POST', path, parameters())
    expect(status).toBe(400)
    expect(body.error).toMatchObject({
      code: 'simulated_not_modelled',
      param: name ?? 'payment_intent_data[transfer_group]',
    })
  },
)

test('a text instead of an object is refused, never ignored', async () => {
  const answer = await ask('POST', '/v1/checkout/sessions', session('payment_intent_data=245'))
  expect(answer.body.error).toMatchObject({
    code: 'parameter_invalid_object',
    param: 'payment_intent_data',
  })
})

test('a list can be filtered by an exact time', async () => {
  const count = async (created: number): Promise<number> => {
    const { body } = await ask('GET', '/v1/charges', `created=${created}`)
    return (body as { data: unknown[] }).data.length
  }
  const charge = await world.stripe.charges.retrieve(paid.charge, {}, { stripeAccount: vendor })
  expect([await count(charge.created), await count(charge.created - 1)]).toEqual([1, 0])
})

describe('a refusal has the recorded status and members', () => {
  const recorded = JSON.parse(
    readFileSync(new URL('../fixtures/api-errors.json', import.meta.url), 'utf8'),
  ) as Record<string, Answer>

  const causes: Record<string, () => Promise<Answer>> = {
    charge_already_refunded: async () => {
      const { charge } = await givenPayment(world)
      await world.simulator.control('refund', { charge })
      return ask('POST', '/v1/refunds', `charge=${charge}`)
    },
    charge_disputed: async () => {
      const { charge } = await givenPayment(world)
      await world.simulator.control('dispute', { charge })
      return ask('POST', '/v1/refunds', `charge=${charge}`)
    },
    resource_missing: () => ask('GET', '/v1/charges/ch_none'),
    idempotency_mismatch: async () => {
      await ask('POST', '/v1/refunds', `charge=${paid.charge}&amount=1`, 'key_1')
      return ask('POST', '/v1/refunds', `charge=${paid.charge}&amount=2`, 'key_1')
    },
    rate_limit: async () => {
      await world.simulator.control('faults', { answer: '429', path: '/v1/disputes' })
      return ask('GET', '/v1/disputes')
    },
  }

  test.each(Object.keys(recorded))('%s', async (name) => {
    const answer = await causes[name]?.()
    expect(answer?.status).toBe(recorded[name]?.status)
    expect(shapeOf(answer?.body)).toEqual(shapeOf(recorded[name]?.body))
    expect(answer?.body.error?.code).toBe(recorded[name]?.body.error?.code)
  })
})
