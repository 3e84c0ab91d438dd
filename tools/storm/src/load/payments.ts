import { acknowledged, text, type Action, type Client } from './client.ts'
import { atProcessor } from './open-shop.ts'
import type { Bought } from './world.ts'

const urls = { success_url: 'https://shop.example.com/done', cancel_url: 'https://shop.example.com/back' }

/** Opens a checkout and pays it. */
export const buy: Action = async (client) => {
  const { shop, random } = client
  const mode = random.chance(0.4) ? 'subscription' : 'payment'
  const planId = mode === 'payment' ? shop.oneOffPlanId : shop.subscriptionPlanId
  const externalRef = `buyer-${client.unique()}`
  const sent = await client.send(
    { do: 'checkout', appId: shop.appId, externalRef, planId },
    'POST',
    `/v1/apps/${shop.appId}/checkout-sessions`,
    { body: { plan_id: planId, external_ref: externalRef, ...urls } },
  )
  if (!acknowledged(sent)) return
  const checkoutRef = text(sent, 'url').split('/').at(-1)!
  const bought: Bought = {
    checkoutRef,
    mode,
    paid: false,
    subscription: undefined,
    over: false,
  }
  shop.sessions.push(bought)
  if (random.chance(0.15)) return
  await pay(client, bought)
}

async function pay({ world, random }: Client, bought: Bought): Promise<void> {
  const delayed = bought.mode === 'payment' && random.chance(0.15)
  const session = { session: bought.checkoutRef }
  const paid = await atProcessor(world, 'pay', { ...session, ...(delayed && { method: 'delayed' }) })
  const settled = delayed ? await atProcessor(world, 'pay', session) : paid
  if (settled === undefined) return
  bought.paid = true
  const { subscription } = settled
  if (typeof subscription === 'string') bought.subscription = subscription
}

/** Refunds, disputes and renewals of earlier purchases. */
export const afterwards: Action = async (client) => {
  const { world, shop, random } = client
  const bought = random.pick(shop.sessions.filter(({ over }) => !over).slice(-12))
  if (bought === undefined) return
  if (!bought.paid) return pay(client, bought)
  const { subscription } = bought
  if (subscription !== undefined && random.chance(0.7)) return subscriptionLife(client, bought, subscription)
  if (subscription !== undefined) return undefined
  const charge = bought.checkoutRef
  const what = random.weighted({ full: 3, partial: 3, chargeback: 2, inquiry: 2 })
  if (what === 'partial') {
    await atProcessor(world, 'refund', { charge, amount: random.between(1, 900) })
    bought.over = random.chance(0.5)
    return undefined
  }
  bought.over = true
  if (what === 'full') return atProcessor(world, 'refund', { charge })
  const dispute = await atProcessor(world, 'dispute', { charge, kind: what })
  if (what === 'inquiry' && typeof dispute?.['id'] === 'string') {
    await atProcessor(world, 'close-dispute', { dispute: dispute['id'], outcome: 'warning_closed' })
  }
}

async function subscriptionLife(
  { world, random }: Client,
  bought: Bought,
  subscription: string,
): Promise<void> {
  const what = random.weighted({ renew: 5, fail: 3, cancel: 1 })
  if (what === 'renew') await atProcessor(world, 'renew', { subscription })
  if (what === 'fail') await atProcessor(world, 'fail-invoice', { subscription })
  if (what === 'cancel') {
    await atProcessor(world, 'cancel', { subscription, when: 'now' })
    bought.over = true
  }
}

/** Reports a sale of another shop. Without an answer, it reports the sale again. */
export const sell: Action = async (client) => {
  const { shop, random } = client
  const number = client.unique()
  const planId = random.chance(0.3) ? random.pick(shop.changingPlanIds) : shop.steadyPlanId
  // Some customers buy again, which changes the plan of their licence.
  const externalRef = random.chance(0.3) ? `regular-${random.between(1, 5)}` : `sold-${number}`
  const amount = random.between(100, 5_000)
  const saleId = `sale-${number}`
  const body = {
    sale_id: saleId,
    external_ref: externalRef,
    plan_id: planId,
    amount,
    currency: 'usd',
    occurred_at: new Date().toISOString(),
  }
  for (let tries = 0; tries < 3 && client.world.running; tries += 1) {
    const sent = await client.send(
      { do: 'sale', appId: shop.appId, saleId, externalRef, planId, amount },
      'POST',
      `/v1/apps/${shop.appId}/sale-events`,
      { body },
    )
    if (sent.answered !== 'unknown') return
  }
}

/** Raises and lowers the cap of one vendor. Only one client sets it. */
export const setCap: Action = async (client) => {
  const { shop, random } = client
  const capMinor = random.pick([null, 1_000_000_000, 60])
  await client.send({ do: 'cap', accountId: shop.accountId, capMinor }, 'PUT', '/v1/spend-cap', {
    body: { cap_minor: capMinor, currency: 'usd' },
  })
}
