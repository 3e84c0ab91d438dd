import { eventually } from '@licensing/test-support/poll'
import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { givenEndpoint } from './delivery.ts'
import { allRows, expectStatus, givenReceiver, givenStack, givenVendor } from './vendor.ts'
import type { Plan } from './vendor.ts'

export interface Session {
  id: string
  url: string
  status: string
  plan_id: string
  external_ref: string
  amount: number
  currency: string
  fee_minor: number
  licence_id: string | null
  reason: string | null
  created_at: string
}

export interface Payment {
  id: string
  licence_id: string
  charge_ref: string
  occurred_at: string
}

export interface Sale {
  id: string
  sale_id: string
  status: string
  licence_id: string
  reason: string | null
}

interface Fee {
  kind: string
  amount_minor: number
  application_id: string
}

/** The stack, with an account that has connected a processor. The fee is 2.5 % plus 5 minor units. */
export type Market = Awaited<ReturnType<typeof givenMarket>>

export async function givenMarket() {
  const stack = await givenStack()
  const receiver = await givenReceiver()
  const connectedAccount = `acct_1${randomUUID().replaceAll('-', '')}`
  const body = { processor: 'stripe', connected_account: connectedAccount }
  expectStatus(await stack.api.put('/v1/processor', { body }), 200)
  /** Runs an action at the processor, such as a payment by a customer or a dispute by a bank. */
  const atProcessor = async (action: string, parameters: object): Promise<Record<string, string>> => {
    const response = await fetch(`${stack.simulator!.url}/_sim/${action}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(parameters),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${action}: ${response.status} ${text}`)
    return JSON.parse(text) as Record<string, string>
  }
  return { stack, receiver, connectedAccount, atProcessor }
}

/** An application with an endpoint for its events, and functions that sell its plans. */
export async function givenShop({ stack, receiver, atProcessor }: Market) {
  const vendor = await givenVendor(stack)
  const { api, app, licences } = vendor
  const endpoint = await givenEndpoint(vendor, receiver)
  const { events } = endpoint
  const types = () => events().map(({ type }) => type)
  const hears = (expected: string[]) =>
    eventually(() => expect(types().toSorted()).toEqual(expected.toSorted()))
  /** Gives a plan a price. */
  const sells = async (fields: Record<string, unknown> = {}, plan?: Plan) => {
    const sold = plan ?? (await vendor.plan())
    const price = { price_id: `price_${randomUUID()}`, amount: 4_900, currency: 'eur', mode: 'payment' }
    expectStatus(await api.put(`${app}/plans/${sold.id}/price`, { body: { ...price, ...fields } }), 200)
    return sold
  }
  const order = (planId: string, externalRef: string, fields: object = {}) => {
    const urls = { success_url: 'https://shop.example.com/thanks', cancel_url: 'https://shop.example.com/' }
    const body = { plan_id: planId, external_ref: externalRef, ...urls, ...fields }
    return api.post<Session>(`${app}/checkout-sessions`, { body })
  }
  const checkout = async (planId: string, externalRef: string = randomUUID(), fields: object = {}) => {
    const opened = await order(planId, externalRef, fields)
    expectStatus(opened, 201)
    return { ...opened.body, remote: new URL(opened.body.url).pathname.split('/').at(-1)! }
  }
  const session = async (id: string) => (await api.get<Session>(`${app}/checkout-sessions/${id}`)).body
  const reaches = (id: string, status: string) =>
    eventually(async () => {
      const found = await session(id)
      expect(found.status).toBe(status)
      return found
    })
  const licencesOf = (externalRef: string) => licences(`?external_ref=${encodeURIComponent(externalRef)}`)
  /** Pays a checkout, and returns the licence. */
  const buy = async (planId: string, externalRef: string = randomUUID(), fields: object = {}) => {
    const opened = await checkout(planId, externalRef, fields)
    const { subscription } = await atProcessor('pay', { session: opened.remote })
    const paid = await reaches(opened.id, 'provisioned')
    return { session: { ...opened, ...paid }, subscription, licence: (await licencesOf(externalRef))[0]! }
  }
  return {
    ...vendor,
    events,
    types,
    hears,
    sells,
    order,
    checkout,
    session,
    reaches,
    licencesOf,
    buy,
    /** The events of a type about a licence that have arrived. */
    heard: (type: string, licenceId: string) =>
      events().filter((event) => event.type === type && event.data.object['licence_id'] === licenceId),
    becomes: (licenceId: string, status: string) =>
      eventually(async () => {
        const found = await vendor.detail(licenceId)
        expect(found.status).toBe(status)
        return found
      }),
    sell: (fields: object) => {
      const sale = { sale_id: randomUUID(), external_ref: 'customer', amount: 100, currency: 'eur' }
      const body = { ...sale, occurred_at: new Date().toISOString(), ...fields }
      return api.post<Sale>(`${app}/sale-events`, { body })
    },
    payments: (query = '') => allRows<Payment>(api, `${app}/payments${query}`, 1),
    fees: async () => {
      const rows = await allRows<Fee>(api, '/v1/fees')
      return rows.filter((fee) => fee.application_id === vendor.appId)
    },
  }
}
