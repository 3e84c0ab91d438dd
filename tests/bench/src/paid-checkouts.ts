import type { Stack } from '@licensing/test-support/stack-shape'
import { givenDefinitions, givenPlan } from './vendor.ts'

export interface ProcessorEvent {
  eventId: string
  merchant: string
  type: string
  body: string
}

const connectedAccount = 'acct_1BenchVendor00001'
const workers = 8
// The simulator keeps the latest 10,000 events, and a sale has four.
const maxAtOnce = 2_000

interface Sold {
  session: string
  subscription: string | undefined
}

/** Pays checkouts while the processor holds its events. @returns the events */
export async function givenPaidCheckouts(stack: Stack, count: number): Promise<ProcessorEvent[]> {
  await givenConnected(stack)
  const planId = await givenPricedPlan(stack, 'pro', 'payment')
  const events: ProcessorEvent[] = []
  for (let sold = 0; sold < count; sold += maxAtOnce) {
    await inTurns(Math.min(maxAtOnce, count - sold), (n) => sell(stack, planId, `customer-${sold + n}`))
    events.push(...(await eventsHeldBack(stack, events)))
  }
  return events
}

/**
 * A mixed load: half sales and half subscriptions, a renewal of each subscription, and a refund of every tenth sale. Call it
 * after `givenPaidCheckouts`.
 */
export async function givenMixedLoad(
  stack: Stack,
  count: number,
  before: ProcessorEvent[],
): Promise<{ events: ProcessorEvent[]; renewals: number; refunds: number }> {
  const plans = [
    await givenPricedPlan(stack, 'mixed', 'payment'),
    await givenPricedPlan(stack, 'monthly', 'subscription'),
  ]
  let [renewals, refunds] = [0, 0]
  await inTurns(count, async (n) => {
    const { session, subscription } = await sell(stack, plans[n % 2]!, `mixed-${n}`)
    if (subscription !== undefined) {
      await control(stack, 'renew', { subscription })
      renewals += 1
    } else if (n % 10 === 0) {
      await control(stack, 'refund', { charge: session })
      refunds += 1
    }
  })
  const events = await eventsHeldBack(stack, before)
  return { events, renewals, refunds }
}

async function givenConnected(stack: Stack): Promise<void> {
  await givenDefinitions(stack)
  const body = { processor: 'stripe', connected_account: connectedAccount }
  await expectStatus(200, stack.api.put('/v1/processor', { body }))
  await control(stack, 'delivery-rules', { action: 'hold' })
}

async function givenPricedPlan(
  stack: Stack,
  code: string,
  mode: 'payment' | 'subscription',
): Promise<string> {
  const planId = await givenPlan(stack, code)
  const body = { price_id: `price_bench_${code}`, amount: 4900, currency: 'usd', mode }
  await expectStatus(200, stack.api.put(`/v1/apps/${stack.appId}/plans/${planId}/price`, { body }))
  return planId
}

async function sell(stack: Stack, planId: string, customer: string): Promise<Sold> {
  const body = {
    plan_id: planId,
    external_ref: customer,
    success_url: 'https://vendor.example/thanks',
    cancel_url: 'https://vendor.example/cancel',
  }
  const { url } = await expectStatus(
    201,
    stack.api.post<{ url: string }>(`/v1/apps/${stack.appId}/checkout-sessions`, { body }),
  )
  const session = url.split('/').at(-1)!
  const paid = (await control(stack, 'pay', { session })) as { subscription?: string | null }
  return { session, subscription: paid.subscription ?? undefined }
}

async function inTurns(count: number, work: (n: number) => Promise<unknown>): Promise<void> {
  let at = 0
  const worker = async () => {
    while (at < count) await work(at++)
  }
  await Promise.all(Array.from({ length: workers }, worker))
}

async function eventsHeldBack(stack: Stack, before: ProcessorEvent[]): Promise<ProcessorEvent[]> {
  const known = new Set(before.map((event) => event.eventId))
  const response = await fetch(`${stack.simulator!.url}/_sim/events`)
  const { data } = (await response.json()) as {
    data: { event: { id: string; type: string; account?: string } }[]
  }
  return data.flatMap(({ event }) =>
    event.account === undefined || known.has(event.id)
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

async function control(stack: Stack, action: string, body: object): Promise<unknown> {
  const response = await fetch(`${stack.simulator!.url}/_sim/${action}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`${action} was answered ${response.status}: ${await response.text()}`)
  return response.json()
}

async function expectStatus<Body>(
  status: number,
  answering: Promise<{ status: number; body: Body }>,
): Promise<Body> {
  const answer = await answering
  if (answer.status !== status) throw new Error(`answered ${answer.status}: ${JSON.stringify(answer.body)}`)
  return answer.body
}
