import type { DemoReceiver, ReceivedEvent } from './receiver.ts'
import { caller, chapter, expectThat, tell } from './show.ts'
import type { Caller } from './show.ts'

export interface Shop {
  appId: string
  planId: string
  call: Caller
}

/** What a vendor does first: an application, its vocabulary, a plan, and where events go. */
export async function setUpShop(gateway: string, apiKey: string, receiver: DemoReceiver): Promise<Shop> {
  const call = caller(gateway, apiKey)
  chapter('1. An application, its entitlement definitions and a plan')
  const app = await call('POST', '/v1/apps', { name: 'Photo Editor' })
  const appId = String(app.body.id)
  const at = `/v1/apps/${appId}`
  await call('POST', `${at}/entitlement-defs`, {
    key: 'raw_import',
    kind: 'feature',
    display_name: 'RAW import',
  })
  await call('POST', `${at}/entitlement-defs`, { key: 'projects', kind: 'limit', default: '3' })
  const plan = await call('POST', `${at}/plans`, {
    name: 'Pro',
    code: 'pro',
    entitlements: [
      { key: 'raw_import', value: 'true' },
      { key: 'projects', value: '100' },
    ],
  })
  chapter('2. The vendor’s backend, an HTTPS server on this machine, is registered for all events')
  const endpoint = await call('POST', `${at}/webhook-endpoints`, {
    url: receiver.url,
    subscribed_events: '*',
  })
  expectThat(endpoint.status === 201, refusedReceiver(endpoint.body))
  receiver.secret = String(endpoint.body.secret)
  return { appId, planId: String(plan.body.id), call }
}

/** Issue, suspend, reactivate, and the events that tell of it. */
export async function sellByHand({ appId, planId, call }: Shop, receiver: DemoReceiver): Promise<string> {
  chapter('3. A licence is issued; a retry answers the same one')
  const order = { 'idempotency-key': 'order-1001' }
  const body = { external_ref: 'customer-1', plan_id: planId, restrictions: { max_activations: 1 } }
  const licence = await call('POST', `/v1/apps/${appId}/licences`, body, order)
  const again = await call('POST', `/v1/apps/${appId}/licences`, body, order)
  expectThat(licence.body.id === again.body.id, 'the retry minted a second licence')
  const at = `/v1/licences/${String(licence.body.id)}`
  chapter('4. It is suspended: the backend hears of it, and verifies the signature')
  await call('POST', `${at}/suspend`)
  show(await receiver.next('licence.suspended'))
  const refused = await call('POST', `${at}/suspend`)
  expectThat(refused.status === 409, 'a suspended licence was suspended again')
  await call('POST', `${at}/reactivate`)
  show(await receiver.next('licence.reactivated'))
  return String(licence.body.key)
}

/** One line for an event that arrived. */
export function show(event: ReceivedEvent): void {
  const object = JSON.stringify(event.data.object)
  tell(
    `⇒ webhook ${event.sequence} ${event.type} ${object} signature ${event.signatureIsRight ? 'right' : 'WRONG'}`,
  )
  expectThat(event.signatureIsRight, 'the signature was wrong')
}

function refusedReceiver(problem: Record<string, unknown>): string {
  return (
    `the stack does not deliver to this machine (${String(problem.detail)}).\n` +
    'Stop it and let the demo start one of its own, or start it with\n' +
    '  WEBHOOK_ALLOWED_CIDRS=127.0.0.0/8 WEBHOOK_CA_FILE=$DATA_DIR/demo-authority.pem npm start'
  )
}
