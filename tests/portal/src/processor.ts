import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import type { World } from './world.ts'

export const newAccount = () => `acct_${randomUUID().replaceAll('-', '')}`

/** Connects an account through the consent page, without a browser. */
export async function connectProcessor({ stack }: World): Promise<void> {
  const { api, gatewayUrl, simulator } = stack
  if ((await api.get('/v1/processor')).status === 200) return
  const { body } = await api.post<{ url: string }>('/v1/processor/authorizations')
  const fields = new URL(body.url).searchParams
  fields.set('account', newAccount())
  fields.set('consent', 'given')
  const consented = await fetch(`${simulator!.url}/oauth/authorize`, {
    method: 'POST',
    body: fields,
    redirect: 'manual',
  })
  const page = await fetch(consented.headers.get('location')!)
  const confirmation = /name="confirmation" value="([^"]+)"/.exec(await page.text())![1]!
  const confirmed = await fetch(`${gatewayUrl}/v1/processors/stripe/authorized`, {
    method: 'POST',
    body: new URLSearchParams({ confirmation }),
    headers: { cookie: page.headers.get('set-cookie')!.split(';')[0]! },
  })
  expect(confirmed.status).toBe(200)
}

/** Runs an action at the processor. */
export async function atProcessor(
  { stack }: World,
  action: 'pay' | 'refund' | 'settings',
  body: object,
): Promise<void> {
  const response = await fetch(`${stack.simulator!.url}/_sim/${action}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  expect(response.ok, await response.text()).toBe(true)
}
