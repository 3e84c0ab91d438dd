import type { Asked } from '../outcome.ts'
import type { Vendor } from '../stack.ts'
import { senderOf } from './client.ts'
import { atProcessor } from './payments.ts'
import { trialPlanCode } from './products.ts'
import type { Shop, World } from './world.ts'

/** Creates a vendor's plans, prices, processor connection and endpoints before the storm. */
export async function openShop(world: World, vendor: Vendor, number: number): Promise<Shop> {
  const send = senderOf(world, vendor, () => world.stack.clientUrls[0]!)
  const { appId } = vendor
  const app = `/v1/apps/${appId}` as const
  const call = async (asked: Asked, route: Parameters<typeof send>[1], body: object) => {
    const sent = await send(asked, route, body)
    if (sent.answered === 'acknowledged') return sent.body as { id: string }
    throw new Error(`${route} was answered with ${sent.status} ${JSON.stringify(sent.body)}`)
  }
  const plan = async (code: string, terms: { trial_days?: number } = {}) => {
    const body = { code, name: code, entitlements: [{ key: 'seats', value: '10' }], ...terms }
    return (await call({ do: 'create plan', appId, code, name: code }, `POST ${app}/plans`, body)).id
  }
  const merchant = `acct_storm${number}`
  const currency = 'usd'
  const priced = async (mode: 'payment' | 'subscription', amount: number) => {
    const planId = await plan(mode)
    const id = `price_${mode}_${number}`
    const recurring = mode === 'subscription' ? { recurring: { interval: 'month' } } : {}
    await atProcessor(world, 'set-price', {
      id,
      account: merchant,
      unit_amount: amount,
      currency,
      ...recurring,
    })
    const price = { price_id: id, amount, currency, mode }
    await call({ do: 'read', path: 'price' }, `PUT ${app}/plans/${planId}/price`, price)
    return planId
  }
  const endpoint = async (link: string, path: string) => {
    const url = `https://localhost:${world.stack.links.get(link)!.port}${path}`
    const body = { url, subscribed_events: '*' }
    await call({ do: 'create endpoint', appId, url }, `POST ${app}/webhook-endpoints`, body)
  }
  const seats = { key: 'seats', kind: 'limit' }
  await call({ do: 'define', appId, key: 'seats' }, `POST ${app}/entitlement-defs`, seats)
  const setting = { processor: 'stripe', connected_account: merchant }
  await call({ do: 'read', path: '/v1/processor' }, 'PUT /v1/processor', setting)
  await endpoint('notifier>steady', `/steady/of-${number}`)
  await endpoint('notifier>flapping', `/flapping/of-${number}`)
  await endpoint('notifier>slow', `/slow/of-${number}`)
  if (number === 1) await endpoint('notifier>steady', '/dead/of-1')
  await plan(trialPlanCode, { trial_days: 14 })
  return {
    ...vendor,
    steadyPlanId: await plan('steady'),
    changingPlanIds: [await plan('changing-1'), await plan('changing-2')],
    planIds: { payment: await priced('payment', 4_900), subscription: await priced('subscription', 1_250) },
    licences: [],
    legacyKeys: [],
    activations: [],
    definitions: [],
    endpoints: [],
    keys: [],
    sessions: [],
    sales: [],
  }
}
