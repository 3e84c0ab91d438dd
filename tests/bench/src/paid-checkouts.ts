import type { Stack } from '@licensing/test-support/stack-shape'
import { givenDefinitions, givenPlan } from './vendor.ts'

export interface ProcessorEvent {
  eventId: string
  merchant: string
  type: string
  body: string
}

const connectedAccount = 'acct_1BenchVendor00001'
const lanes = 8

/** Checkouts that customers have paid while the processor kept its events back. @returns those events */
export async function givenPaidCheckouts(stack: Stack, count: number): Promise<ProcessorEvent[]> {
  const { api, appId } = stack
  await givenDefinitions(stack)
  const planId = await givenPlan(stack, 'pro')
  await expectStatus(
    200,
    api.put('/v1/processor', { body: { processor: 'stripe', connected_account: connectedAccount } }),
  )
  const price = { price_id: 'price_bench', amount: 4900, currency: 'usd', mode: 'payment' }
  await expectStatus(200, api.put(`/v1/apps/${appId}/plans/${planId}/price`, { body: price }))
  await control(stack, 'delivery-rules', { action: 'hold' })
  let at = 0
  const lane = async () => {
    while (at < count) {
      const body = {
        plan_id: planId,
        external_ref: `customer-${at++}`,
        success_url: 'https://vendor.example/thanks',
        cancel_url: 'https://vendor.example/cancel',
      }
      const session = await expectStatus(
        201,
        api.post<{ url: string }>(`/v1/apps/${appId}/checkout-sessions`, { body }),
      )
      await control(stack, 'pay', { session: session.url.split('/').at(-1)! })
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  const response = await fetch(`${stack.simulator!.url}/_sim/events`)
  const { data } = (await response.json()) as {
    data: { event: { id: string; type: string; account?: string } }[]
  }
  return data.flatMap(({ event }) =>
    event.account === undefined
      ? []
      : [
          {
            eventId: event.id,
            merchant: `stripe:${event.account}`,
            type: event.type,
            body: JSON.stringify(event),
          },
        ],
  )
}

async function control(stack: Stack, action: string, body: object): Promise<void> {
  const response = await fetch(`${stack.simulator!.url}/_sim/${action}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`${action} was answered ${response.status}: ${await response.text()}`)
  await response.body?.cancel()
}

async function expectStatus<Body>(
  status: number,
  answering: Promise<{ status: number; body: Body }>,
): Promise<Body> {
  const answer = await answering
  if (answer.status !== status) throw new Error(`answered ${answer.status}: ${JSON.stringify(answer.body)}`)
  return answer.body
}
