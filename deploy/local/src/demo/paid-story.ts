import type { DemoReceiver } from './receiver.ts'
import { chapter, expectThat, tell } from './show.ts'
import { show } from './vendor-story.ts'
import type { Shop } from './vendor-story.ts'

/** Checkout → payment → licence → refund → revocation, with the Stripe simulator. */
export async function payAndRefund(
  { appId, planId, call, cli }: Shop,
  receiver: DemoReceiver,
  simulatorUrl: string,
): Promise<void> {
  chapter('5. A customer buys through checkout, with the simulated Stripe')
  await call('PUT', '/v1/processor', { processor: 'stripe', connected_account: 'acct_demo' })
  // Different in each run, because a price belongs to one plan of the account.
  const price = [
    '--price-id',
    `price_demo_${planId}`,
    '--amount',
    '4900',
    '--currency',
    'usd',
    '--period-months',
    '12',
  ]
  await cli('plans', 'set-price', 'pro', ...price)
  const urls = [
    '--success-url',
    'https://shop.example.com/thanks',
    '--cancel-url',
    'https://shop.example.com/cart',
  ]
  const session = await cli('checkout', 'create', '--plan', 'pro', '--external-ref', 'customer-2', ...urls)
  expectThat(session.code === 0, 'the checkout session was refused')
  tell(`the customer pays at ${String(session.answer['url'])}`)
  const checkout = String(session.answer['url']).split('/').at(-1)!
  await control(simulatorUrl, 'pay', { session: checkout })
  const created = await receiver.next(appId, 'licence.created')
  show(created)
  show(await receiver.next(appId, 'payment.succeeded'))
  const payments = await call('GET', `/v1/apps/${appId}/payments`)
  const [payment] = payments.body.data as { charge_ref: string }[]
  await call('GET', '/v1/fees')
  chapter('6. The payment is refunded: the licence is revoked and the fee is credited')
  await control(simulatorUrl, 'refund', { charge: payment!.charge_ref })
  show(await receiver.next(appId, 'refund.processed'))
  show(await receiver.next(appId, 'licence.revoked'))
  await cli('licences', 'show', String(created.data.object['licence_id']))
  await call('GET', '/v1/fees')
}

async function control(simulatorUrl: string, action: string, body: Record<string, unknown>): Promise<void> {
  tell(`(simulated Stripe) ${action} ${JSON.stringify(body)}`)
  const response = await fetch(`${simulatorUrl}/_sim/${action}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  expectThat(response.ok, `the simulated Stripe answered ${response.status}: ${await response.text()}`)
}
