import type { DemoReceiver, ReceivedEvent } from './receiver.ts'
import { caller, chapter, commandLine, expectThat, tell, withFile } from './show.ts'
import type { Caller, CommandLine } from './show.ts'

export interface Shop {
  appId: string
  rootKey: string
  planId: string
  call: Caller
  cli: CommandLine
}

const products = `entitlements:
  - { key: raw_import, kind: feature, display_name: RAW import }
  - { key: projects, kind: limit, default: 3 }
plans:
  - code: pro
    name: Pro
    values: { raw_import: true, projects: 100 }
`

/** The first steps of a vendor: creates an application, its entitlement definitions and a plan. */
export async function setUpShop(gateway: string, apiKey: string): Promise<Shop> {
  const call = caller(gateway, apiKey)
  chapter('1. Create an application, entitlement definitions and a plan')
  const app = await call('POST', '/v1/apps', { name: 'Photo Editor' })
  const appId = String(app.body.id)
  const rootKey = String(app.body.root_key)
  const cli = commandLine(gateway, apiKey, appId)
  const applied = await withFile('licensing.yaml', products, (file) => cli('apply', file))
  expectThat(applied.code === 0, 'the file was not applied')
  const plan = await cli('plans', 'show', 'pro')
  return { appId, rootKey, planId: String(plan.answer['id']), call, cli }
}

/** Issues, suspends and reactivates a licence, and receives the events. */
export async function sellByHand({ appId, cli }: Shop, receiver: DemoReceiver): Promise<string> {
  chapter('2. Start a backend that receives events through licensing listen')
  tell(`licensing listen --forward-to ${receiver.url}`)
  chapter('3. Issue a licence; a retry with the same key returns the same licence')
  const order = ['--plan', 'pro', '--external-ref', 'customer-1', '--max-activations', '1']
  const issue = () => cli('licences', 'issue', ...order, '--idempotency-key', 'order-1001')
  const { answer: licence } = await issue()
  expectThat((await issue()).answer['id'] === licence['id'], 'the retry created a second licence')
  const id = String(licence['id'])
  chapter('4. Suspend and reactivate it; the backend verifies the signature of each webhook')
  await cli('licences', 'suspend', id)
  show(await receiver.next(appId, 'licence.suspended'))
  expectThat((await cli('licences', 'suspend', id)).code === 1, 'a suspended licence was suspended again')
  await cli('licences', 'reactivate', id)
  show(await receiver.next(appId, 'licence.reactivated'))
  return String(licence['key'])
}

/** Prints a line for a received event. */
export function show(event: ReceivedEvent): void {
  const object = JSON.stringify(event.data.object)
  tell(
    `⇒ webhook ${event.sequence} ${event.type} ${object} signature ${event.signatureIsRight ? 'valid' : 'INVALID'}`,
  )
  expectThat(event.signatureIsRight, 'the signature is invalid')
}
