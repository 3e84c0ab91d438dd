import type { Asked } from '../outcome.ts'
import type { StormStack } from '../stack/storm-stack.ts'
import type { Vendor } from '../stack/vendors.ts'
import type { Caller, Request } from './caller.ts'
import { trialPlanCode } from './products.ts'
import type { Shop, World } from './world.ts'

/** Creates a vendor's plans, prices, processor connection and endpoints before the storm. */
export async function openShop(
  stack: StormStack,
  caller: Caller,
  vendor: Vendor,
  number: number,
): Promise<Shop> {
  const call = async (asked: Asked, method: Request['method'], path: string, body: object) => {
    const sent = await caller.send(asked, {
      gatewayUrl: stack.gatewayUrls[0]!,
      apiKey: vendor.apiKey,
      method,
      path,
      body,
    })
    if (sent.answered !== 'acknowledged') {
      throw new Error(`${method} ${path} was answered with ${sent.status} ${JSON.stringify(sent.body)}`)
    }
    return sent.body as { id: string }
  }
  const { appId } = vendor
  const app = `/v1/apps/${appId}`
  const plan = async (code: string, terms: { trial_days?: number } = {}) => {
    const body = { code, name: code, entitlements: [{ key: 'seats', value: '10' }], ...terms }
    return (await call({ do: 'create plan', appId, code, name: code }, 'POST', `${app}/plans`, body)).id
  }
  await call({ do: 'define', appId, key: 'seats' }, 'POST', `${app}/entitlement-defs`, {
    key: 'seats',
    kind: 'limit',
  })
  const merchant = `acct_storm${number}`
  const setting: Asked = { do: 'read', path: '/v1/processor' }
  await call(setting, 'PUT', '/v1/processor', { processor: 'stripe', connected_account: merchant })
  const priced = async (mode: 'payment' | 'subscription', amount: number) => {
    const planId = await plan(mode)
    const priceId = `price_${mode}_${number}`
    await atProcessor({ stack } as World, 'set-price', {
      id: priceId,
      account: merchant,
      unit_amount: amount,
      currency: 'usd',
      ...(mode === 'subscription' && { recurring: { interval: 'month' } }),
    })
    await call({ do: 'read', path: 'price' }, 'PUT', `${app}/plans/${planId}/price`, {
      price_id: priceId,
      amount,
      currency: 'usd',
      mode,
    })
    return planId
  }
  const endpoint = async (link: string, path: string) => {
    const url = `https://localhost:${stack.links.get(link)!.port}${path}`
    await call({ do: 'create endpoint', appId, url }, 'POST', `${app}/webhook-endpoints`, {
      url,
      subscribed_events: '*',
    })
  }
  await endpoint('notifier>steady', `/steady/of-${number}`)
  await endpoint('notifier>flapping', `/flapping/of-${number}`)
  await endpoint('notifier>slow', `/slow/of-${number}`)
  if (number === 1) await endpoint('notifier>steady', '/dead/of-1')
  await plan(trialPlanCode, { trial_days: 14 })
  return {
    ...vendor,
    steadyPlanId: await plan('steady'),
    changingPlanIds: [await plan('changing-1'), await plan('changing-2')],
    oneOffPlanId: await priced('payment', 4_900),
    subscriptionPlanId: await priced('subscription', 1_250),
    licences: [],
    legacyKeys: [],
    activations: [],
    definitions: [],
    endpoints: [],
    keys: [],
    sessions: [],
  }
}

/** An action of a customer, a bank or time at the processor; undefined if it was refused or not answered. */
export async function atProcessor(
  { stack }: World,
  action: string,
  body: object,
): Promise<Record<string, unknown> | undefined> {
  try {
    const response = await fetch(`${stack.processor.url}/_sim/${action}`, {
      method: 'POST',
      signal: AbortSignal.timeout(20_000),
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    const answer = (await response.json()) as Record<string, unknown>
    return response.status === 200 ? answer : undefined
  } catch {
    return undefined
  }
}
