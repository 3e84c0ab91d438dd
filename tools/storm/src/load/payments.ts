import { acknowledged, text, untilAnswered, type Action, type Client } from './client.ts'
import { somePlan } from './licences.ts'
import type { Bought, Sold, World } from './world.ts'

const urls = { success_url: 'https://shop.example.com/done', cancel_url: 'https://shop.example.com/back' }

/** An action of a customer, a bank or time at the processor; undefined if it was refused or not answered. */
export async function atProcessor(
  { stack }: Pick<World, 'stack'>,
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

/** Opens a checkout and pays it. */
export const buy: Action = async (client) => {
  const { app, shop, random, send } = client
  const mode = random.chance(0.4) ? 'subscription' : 'payment'
  const planId = shop.planIds[mode]
  const externalRef = `buyer-${client.unique()}`
  const asked = { do: 'checkout', appId: shop.appId, externalRef, planId } as const
  const body = { plan_id: planId, external_ref: externalRef, ...urls }
  const sent = await send(asked, `POST ${app}/checkout-sessions`, body)
  if (!acknowledged(sent)) return
  const checkoutRef = text(sent, 'url').split('/').at(-1)!
  const bought: Bought = { checkoutRef, mode, paid: false, subscription: undefined, over: false }
  shop.sessions.push(bought)
  if (random.chance(0.85)) await pay(client, bought)
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
  if (bought.subscription !== undefined) {
    if (random.chance(0.7)) await subscriptionLife(client, bought, bought.subscription)
    return
  }
  const charge = bought.checkoutRef
  const what = random.weighted({ full: 3, partial: 3, chargeback: 2, inquiry: 2 })
  bought.over = what !== 'partial' || random.chance(0.5)
  if (what === 'full') return atProcessor(world, 'refund', { charge })
  if (what === 'partial') return atProcessor(world, 'refund', { charge, amount: random.between(1, 900) })
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
  const what = random.weighted({ renew: 5, 'fail-invoice': 3, cancel: 1 })
  await atProcessor(world, what, { subscription, ...(what === 'cancel' && { when: 'now' }) })
  if (what === 'cancel') bought.over = true
}

/** Reports a sale of another shop. Without an answer, it reports the sale again. */
export const sell: Action = async (client) => {
  const { app, shop, random } = client
  const number = client.unique()
  const planId = somePlan(client)
  // Some customers buy again, which changes the plan of their licence.
  const externalRef = random.chance(0.3) ? `regular-${random.between(1, 5)}` : `sold-${number}`
  const saleId = `sale-${number}`
  const body = {
    sale_id: saleId,
    external_ref: externalRef,
    plan_id: planId,
    amount: random.between(100, 5_000),
    currency: 'usd',
    occurred_at: new Date().toISOString(),
  }
  const asked = { do: 'sale', appId: shop.appId, saleId, externalRef, planId } as const
  const sold: Sold = { saleId, renewalId: undefined, over: false }
  // Some facts are reported before their sale.
  if (random.chance(0.2)) await reportFact(client, sold)
  await untilAnswered(client, () => client.send(asked, `POST ${app}/sale-events`, body))
  shop.sales.push(sold)
}

/** Reports what happened to an earlier sale of another shop. */
export const afterSale: Action = async (client) => {
  const { shop, random } = client
  const sold = random.pick(shop.sales.filter(({ over }) => !over).slice(-12))
  if (sold) await reportFact(client, sold)
}

async function reportFact(client: Client, sold: Sold): Promise<void> {
  const { app, shop, random } = client
  const { saleId, renewalId } = sold
  const id = `fact-${client.unique()}`
  const money = { amount: random.between(1, 9), ...(renewalId !== undefined && { renewal_id: renewalId }) }
  const renewal = {
    renewal_id: id,
    amount: random.between(100, 5_000),
    currency: 'usd',
    expires_on: '2099-01-01T00:00:00Z',
  }
  const facts = {
    renewal: { path: 'renewals', body: renewal },
    failure: { path: 'failures', body: { failure_id: id } },
    refund: { path: 'refunds', body: { refund_id: id, ...money } },
    chargeback: { path: 'refunds', body: { refund_id: id, ...money, kind: 'chargeback' } },
    cancellation: { path: 'cancellation', body: {} },
  }
  const kind = random.weighted({ renewal: 4, failure: 3, refund: 3, chargeback: 1, cancellation: 1 })
  const { path, body } = facts[kind]
  sold.over = kind === 'chargeback' || kind === 'cancellation'
  const asked = {
    do: 'sale fact',
    appId: shop.appId,
    saleId,
    kind,
    id: kind === 'cancellation' ? '' : id,
  } as const
  const fact = { ...body, occurred_at: new Date().toISOString() }
  const sent = await untilAnswered(client, () =>
    client.send(asked, `POST ${app}/sale-events/${saleId}/${path}`, fact),
  )
  if (kind === 'renewal' && acknowledged(sent)) sold.renewalId = id
}
