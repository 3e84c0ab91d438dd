import type { SimulatedEvent } from '../objects/event.ts'
import { vendor } from '../test-support.ts'
import type { World } from '../test-support.ts'

export type Members = Record<string, unknown>
type List = Members & { data: (Members & { id: string })[] }

/** Every event that was made, whether or not an endpoint wanted it. */
export async function readEvents(world: World): Promise<SimulatedEvent[]> {
  const { data } = await get<{ data: { event: SimulatedEvent }[] }>(world, '/_sim/events')
  return data.map(({ event }) => event)
}

/** What the API answers about everything that there is. */
export async function readAnswers(world: World): Promise<Members[]> {
  const ofVendor = (path: string): Promise<List> => get(world, `/v1/${path}`, vendor)
  const ofPlatform = (path: string): Promise<List> => get(world, `/v1/${path}`)
  const sessions = await ofVendor('checkout/sessions?limit=100')
  const fees = await ofPlatform('application_fees?limit=100')
  const lines = sessions.data.map(({ id }) => ofVendor(`checkout/sessions/${id}/line_items`))
  const feeRefunds = fees.data.map(({ id }) => ofPlatform(`application_fees/${id}/refunds`))
  const invoices = await ofVendor('invoices?limit=100&expand[0]=data.payments')
  const subscriptions = await ofVendor('subscriptions?limit=100&status=all')
  const invoiceLines = invoices.data.map(({ id }) => ofVendor(`invoices/${id}/lines?limit=100`))
  const items = subscriptions.data.map(({ id }) => ofVendor(`subscription_items?subscription=${id}`))
  const others = await Promise.all([
    ...lines,
    ...invoiceLines,
    ...items,
    ...feeRefunds,
    ofVendor('charges?limit=100'),
    ofVendor('disputes?limit=100'),
    ofVendor('invoice_payments?limit=100'),
    ofVendor('payment_intents?limit=100'),
    ofVendor('prices?limit=100'),
    ofVendor('refunds?limit=100'),
    ofPlatform('webhook_endpoints?limit=100'),
    ofPlatform(`accounts/${vendor}`),
  ])
  return [sessions, fees, invoices, subscriptions, ...others]
}

async function get<Body>(world: World, path: string, account?: string): Promise<Body> {
  const headers = {
    authorization: 'Bearer sk_test_simulated',
    ...(account !== undefined && { 'stripe-account': account }),
  }
  const response = await fetch(`${world.simulator.url}${path}`, { headers })
  if (!response.ok) throw new Error(`${path} was answered with ${response.status}: ${await response.text()}`)
  return (await response.json()) as Body
}
