import { afterAll, beforeAll, expect, test } from 'vitest'
import { routes } from './api/routes.ts'
import { givenPrice, startWorld, vendor, type World } from '../test/support.ts'

let world: World
let price: string
beforeAll(async () => {
  world = await startWorld()
  price = await givenPrice(world.simulator)
})
afterAll(() => world[Symbol.asyncDispose]())

type Answer = { status: number; body: { error?: { code?: string; param?: string; message?: string } } }

/** Sends any parameters, which the typed client would not allow. */
async function ask(method: string, path: string, parameters: string): Promise<Answer> {
  const response = await fetch(`${world.simulator.url}${path}${method === 'POST' ? '' : `?${parameters}`}`, {
    method,
    headers: {
      authorization: 'Bearer sk_test_simulated',
      'stripe-account': vendor,
      ...(method === 'POST' && { 'content-type': 'application/x-www-form-urlencoded' }),
    },
    ...(method === 'POST' && { body: parameters }),
  })
  return { status: response.status, body: (await response.json()) as Answer['body'] }
}

const openSession = (more: string, mode = 'payment') =>
  ask(
    'POST',
    '/v1/checkout/sessions',
    `mode=${mode}&success_url=http://127.0.0.1/&line_items[0][price]=${price}&${more}`,
  )

test.each(routes)(
  '$method $path refuses a parameter that Stripe does not have, as Stripe does',
  async ({ method, path }) => {
    expect(await ask(method, path.replace(':id', 'id_1'), 'unheard_of=1')).toMatchObject({
      status: 400,
      body: {
        error: {
          type: 'invalid_request_error',
          code: 'parameter_unknown',
          param: 'unheard_of',
          message: expect.stringContaining('Received unknown parameter: unheard_of'),
        },
      },
    })
  },
)

test.each([
  ['line_items[0][unheard_of]', 'parameter_unknown'],
  ['payment_intent_data[unheard_of]', 'parameter_unknown'],
  ['payment_intent_data[application_fee_percent]', 'parameter_unknown'],
  ['subscription_data[application_fee_amount]', 'parameter_unknown'],
  // Stripe has these, and the simulator does not support them.
  ['locale', 'parameter_unknown'],
  ['payment_intent_data[transfer_group]', 'parameter_unknown'],
  // A text instead of an object.
  ['payment_intent_data', 'parameter_invalid'],
])('a checkout session with %s is refused with %s, never ignored', async (name, code) => {
  const mode = name.startsWith('subscription') ? 'subscription' : 'payment'
  const answer = await openSession(`${name}=1`, mode)
  expect(answer).toMatchObject({ status: 400, body: { error: { code, param: name } } })
})
