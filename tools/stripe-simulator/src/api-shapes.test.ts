import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  givenPayment,
  givenSession,
  givenSubscription,
  idOf,
  shapeOf,
  startWorld,
  vendor,
  type Paid,
  type World,
} from './test-support.ts'

const fixtures = JSON.parse(
  readFileSync(new URL('../fixtures/api-objects.json', import.meta.url), 'utf8'),
) as Record<string, unknown>

let world: World
const paths: Record<string, string> = {}

beforeAll(async () => {
  world = await startWorld()
  const { simulator, stripe } = world
  const account = { stripeAccount: vendor }
  const fee = { payment_intent_data: { application_fee_amount: 245, metadata: { a: '1' } } }
  const refunded: Paid = await givenPayment(world, fee)
  await simulator.control('refund', { charge: refunded.charge, amount: 1900 })
  await simulator.control('refund', { charge: refunded.charge })
  const delayed = await givenSession(world)
  await simulator.control('pay', { session: delayed.id, method: 'delayed' })
  await simulator.control('pay', { session: delayed.id })
  const bank = await stripe.checkout.sessions.retrieve(delayed.id, { expand: ['payment_intent'] }, account)
  const disputed = await givenPayment(world)
  const dispute = await simulator.control('dispute', { charge: disputed.charge })
  const { session, subscription } = await givenSubscription(world, {
    subscription_data: { application_fee_percent: 5 },
  })
  const [payment] = (await stripe.invoicePayments.list({ invoice: idOf(session.invoice) }, account)).data
  const intent = idOf(payment?.payment.payment_intent)
  const cycle = await stripe.paymentIntents.retrieve(intent, {}, account)

  Object.assign(paths, {
    price_1TProUsd00000001: 'price_usd_4900_once',
    price_1TTeamJpy00000001: 'price_jpy_2980_month',
    cs_test_a1FixturePurchaseA: refunded.session.id,
    pi_3TPurchA00000001: refunded.intent,
    ch_3TPurchA00000001: refunded.charge,
    pi_3TDelayB00000001: Object(bank.payment_intent).id,
    py_3TDelayB00000001: Object(bank.payment_intent).latest_charge,
    ch_3TDispD00000001: disputed.charge,
    pi_3TDispD00000001: disputed.intent,
    du_1TDispD00000001: dispute['id'],
    in_1TSubS00000001: session.invoice,
    sub_1TSubS00000001: subscription,
    pi_3TSubS00000001: intent,
    ch_3TSubS00000001: cycle.latest_charge,
  })
})

afterAll(() => world[Symbol.asyncDispose]())

async function answerTo(fixturePath: string): Promise<unknown> {
  let path = fixturePath
  for (const [theirs, ours] of Object.entries(paths)) path = path.replaceAll(theirs, ours)
  const platform = path.startsWith('/v1/application_fees')
  const response = await fetch(`${world.simulator.url}${path}`, {
    headers: {
      authorization: 'Bearer sk_test_simulated',
      ...(!platform && { 'stripe-account': vendor }),
    },
  })
  expect(response.status).toBe(200)
  return response.json()
}

// Left out: in the fixtures a failed debit has no charge, here it has a failed one. The inquiry's charge equals the dispute's.
const elsewhere = ['pi_3TDelayC00000001', 'ch_3TInqI00000001', 'pi_3TInqI00000001']

const gets = Object.keys(fixtures).filter(
  (key) => key.startsWith('GET ') && !elsewhere.some((id) => key.includes(id)),
)

test.each(gets)('%s answers with the keys and types of the fixture', async (key) => {
  expect(gets.length).toBeGreaterThan(15)
  const answer = await answerTo(key.slice('GET '.length))
  expect(shapeOf(answer)).toEqual(shapeOf(fixtures[key]))
})

test('a created object has the keys and types of the fixture', async () => {
  const { stripe } = world
  const account = { stripeAccount: vendor }
  const plain = (answer: object): object => JSON.parse(JSON.stringify(answer)) as object
  const session = await givenSession(world)
  expect(shapeOf(plain(session))).toEqual(shapeOf(fixtures['POST /v1/checkout/sessions']))
  const { charge } = await givenPayment(world, { payment_intent_data: { application_fee_amount: 1 } })
  const refund = await stripe.refunds.create({ charge, amount: 1, reason: 'requested_by_customer' }, account)
  expect(shapeOf(plain(refund))).toEqual(shapeOf(fixtures['POST /v1/refunds']))
  const [fee] = (await stripe.applicationFees.list({ charge })).data
  const returned = await stripe.applicationFees.createRefund(fee?.id ?? '')
  const key = 'POST /v1/application_fees/fee_1TPurchA00000001/refunds'
  expect(shapeOf(plain(returned))).toEqual(shapeOf(fixtures[key]))
})
