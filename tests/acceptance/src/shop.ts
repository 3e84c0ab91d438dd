import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import type { HttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { ownStack, sharedStack } from '@licensing/test-support/shared-stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import type { Envelope } from './delivery.ts'
import { allRows, givenVendor } from './vendor.ts'
import type { Licence, Plan } from './vendor.ts'

export interface Session {
  id: string
  url: string
  status: string
  plan_id: string
  external_ref: string
  amount: number
  currency: string
  fee_minor: number
}

interface Fee {
  kind: string
  amount_minor: number
  currency: string
  charge_ref: string
  application_id: string
  period: string
}

/** Runs an action at the processor, such as a payment by a customer or a dispute by a bank. */
type AtProcessor = <Result = Record<string, string>>(action: string, body: object) => Promise<Result>

/** A stack with an account that has connected a processor. The fee is 2.5 % plus 5 minor units. */
export interface Market extends AsyncDisposable {
  readonly stack: Stack
  readonly receiver: HttpsReceiver
  /** The id of the vendor's account at the processor. */
  readonly connectedAccount: string
  readonly atProcessor: AtProcessor
  readonly givenShop: () => ReturnType<typeof givenShop>
}

/** @param options.movesClock starts a separate stack for this test file, because moving the simulator's clock would affect other files */
export async function startMarket({ movesClock = false } = {}): Promise<Market> {
  await using starting = new AsyncDisposableStack()
  const receiver = starting.use(await startHttpsReceiver())
  const stack = starting.use(await (movesClock ? ownStack() : sharedStack()))
  const connectedAccount = `acct_1${randomUUID().replaceAll('-', '')}`
  const connected = await stack.api.put('/v1/processor', {
    body: { processor: 'stripe', connected_account: connectedAccount },
  })
  if (connected.status !== 200) throw new Error(JSON.stringify(connected.body))
  const atProcessor: AtProcessor = async <Result>(action: string, body: object) => {
    const response = await fetch(`${stack.simulator!.url}/_sim/${action}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${action}: ${response.status} ${text}`)
    return JSON.parse(text) as Result
  }
  const running = starting.move()
  return {
    stack,
    receiver,
    connectedAccount,
    atProcessor,
    givenShop: () => givenShop({ stack, receiver }, atProcessor),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

let prices = 0

/** An application with a price and an endpoint for its events. */
async function givenShop({ stack, receiver }: Pick<Market, 'stack' | 'receiver'>, atProcessor: AtProcessor) {
  const vendor = await givenVendor(stack)
  const { api, app } = vendor
  const path = `/shop-${randomUUID()}`
  const endpoint = await api.post(`${app}/webhook-endpoints`, {
    body: { url: receiver.url(path), subscribed_events: '*' },
  })
  expect(endpoint.status).toBe(201)
  const events = () =>
    receiver.requests
      .filter((request) => request.path === path)
      .map(({ body }) => JSON.parse(body.toString()) as Envelope)
      .toSorted((a, b) => a.sequence - b.sequence)
  const types = () => events().map(({ type }) => type)
  const sells = async (fields: Record<string, unknown> = {}, plan?: Plan) => {
    const sold = plan ?? (await vendor.plan())
    const price = {
      price_id: `price_${++prices}`,
      amount: 4_900,
      currency: 'eur',
      mode: 'payment',
      ...fields,
    }
    const set = await api.put(`${app}/plans/${sold.id}/price`, { body: price })
    expect(set.status, JSON.stringify(set.body)).toBe(200)
    return sold
  }
  const order = (planId: string, externalRef: string) =>
    api.post<Session>(`${app}/checkout-sessions`, {
      body: {
        plan_id: planId,
        external_ref: externalRef,
        success_url: 'https://shop.example.com/thanks',
        cancel_url: 'https://shop.example.com/',
      },
    })
  const checkout = async (planId: string, externalRef: string = randomUUID()) => {
    const session = await order(planId, externalRef)
    expect(session.status, JSON.stringify(session.body)).toBe(201)
    return { ...session.body, remote: new URL(session.body.url).pathname.split('/').at(-1)! }
  }
  const session = async (id: string) => (await api.get<Session>(`${app}/checkout-sessions/${id}`)).body
  const reaches = (id: string, status: string) =>
    eventually(async () => expect((await session(id)).status).toBe(status))
  const licencesOf = (externalRef: string) =>
    allRows<Licence>(api, `${app}/licences?external_ref=${encodeURIComponent(externalRef)}`)
  /** Pays a checkout, and returns the licence. */
  const buy = async (planId: string, externalRef: string = randomUUID()) => {
    const opened = await checkout(planId, externalRef)
    await atProcessor('pay', { session: opened.remote })
    await reaches(opened.id, 'provisioned')
    return { session: opened, licence: (await licencesOf(externalRef))[0]! }
  }
  const becomes = (licenceId: string, status: string) =>
    eventually(async () => {
      const { body } = await api.get<Licence>(`/v1/licences/${licenceId}`)
      expect(body.status).toBe(status)
      return body
    })
  const hears = (expected: string[]) =>
    eventually(() => expect(types().toSorted()).toEqual(expected.toSorted()))
  const fees = async () =>
    (await allRows<Fee>(api, '/v1/fees')).filter((fee) => fee.application_id === vendor.appId)
  return {
    ...vendor,
    events,
    types,
    sells,
    order,
    checkout,
    session,
    reaches,
    licencesOf,
    buy,
    becomes,
    hears,
    fees,
  }
}
