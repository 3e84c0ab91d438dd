import type { DemoReceiver, ReceivedEvent } from './receiver.ts'
import { caller, chapter, expectThat, tell } from './show.ts'
import type { Caller } from './show.ts'

export interface Shop {
  appId: string
  rootKey: string
  planId: string
  call: Caller
}

/** What a vendor does first: an application, its vocabulary, a plan, and where events go. */
export async function setUpShop(gateway: string, apiKey: string): Promise<Shop> {
  const call = caller(gateway, apiKey)
  chapter('1. Create an application, entitlement definitions and a plan')
  const app = await call('POST', '/v1/apps', { name: 'Photo Editor' })
  const appId = String(app.body.id)
  const rootKey = String(app.body.root_key)
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
  return { appId, rootKey, planId: String(plan.body.id), call }
}

/** Issue, suspend, reactivate, and the events that tell of it. */
export async function sellByHand({ appId, planId, call }: Shop, receiver: DemoReceiver): Promise<string> {
  chapter('2. Start a backend that receives events through licensing listen')
  tell(`licensing listen --forward-to ${receiver.url}`)
  chapter('3. Issue a licence; a retry with the same key returns the same licence')
  const order = { 'idempotency-key': 'order-1001' }
  const body = { external_ref: 'customer-1', plan_id: planId, restrictions: { max_activations: 1 } }
  const licence = await call('POST', `/v1/apps/${appId}/licences`, body, order)
  const again = await call('POST', `/v1/apps/${appId}/licences`, body, order)
  expectThat(licence.body.id === again.body.id, 'the retry created a second licence')
  const at = `/v1/licences/${String(licence.body.id)}`
  chapter('4. Suspend and reactivate it; the backend verifies the signature of each webhook')
  await call('POST', `${at}/suspend`)
  show(await receiver.next(appId, 'licence.suspended'))
  const refused = await call('POST', `${at}/suspend`)
  expectThat(refused.status === 409, 'a suspended licence was suspended again')
  await call('POST', `${at}/reactivate`)
  show(await receiver.next(appId, 'licence.reactivated'))
  return String(licence.body.key)
}

/** One line for an event that arrived. */
export function show(event: ReceivedEvent): void {
  const object = JSON.stringify(event.data.object)
  tell(
    `⇒ webhook ${event.sequence} ${event.type} ${object} signature ${event.signatureIsRight ? 'valid' : 'INVALID'}`,
  )
  expectThat(event.signatureIsRight, 'the signature is invalid')
}
