import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import type { HttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { mailServer } from './mailbox.ts'
import { givenVendor } from './vendor.ts'

let stack: Stack
let receiver: HttpsReceiver
const mailbox = mailServer()

beforeAll(async () => {
  receiver = await startHttpsReceiver({ status: 500 })
  stack = await startStack({
    receiver,
    environment: {
      WEBHOOK_BACKOFF_SECONDS: '0.05',
      SMTP_URL: await mailbox.start(),
      ALERT_EMAIL: 'old@vendor.example',
    },
  })
})
afterAll(async () => {
  await stack[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
  await mailbox.stop()
})

/** Lets an endpoint fail. @returns the recipients of the mails that name it */
async function givenAlert(): Promise<string[]> {
  const { api, app } = await givenVendor(stack)
  const { body: endpoint } = await api.post<{ id: string }>(`${app}/webhook-endpoints`, {
    body: { url: receiver.url(), subscribed_events: '*' },
  })
  await api.post(`${app}/webhook-endpoints/${endpoint.id}/test`)
  const about = () => mailbox.mails.filter(({ text }) => text.includes(endpoint.id))
  await eventually(() => expect(about().some(({ text }) => text.includes('has been disabled'))).toBe(true))
  return [...new Set(about().flatMap(({ to }) => to))]
}

test('an address that the API sets gets one mail, and alerts go to it after its link was opened and confirmed', async () => {
  const { api, gatewayUrl } = stack
  const account = async () => (await api.get<Record<string, unknown>>('/v1/account')).body
  expect(await account()).toMatchObject({ alert_email: 'old@vendor.example', alert_email_confirmed: true })
  const set = await api.patch('/v1/account', { body: { alert_email: 'new@vendor.example' } })
  expect(set.body).toMatchObject({ alert_email: 'new@vendor.example', alert_email_confirmed: false })

  const toNew = () => mailbox.mails.filter(({ to }) => to.includes('new@vendor.example'))
  await eventually(() => expect(toNew()).toHaveLength(1))
  const link = /https?:\/\/\S+\?token=\S+/.exec(toNew()[0]!.text)?.[0] ?? ''
  const { pathname, search, searchParams } = new URL(link)
  expect(await givenAlert()).toEqual(['old@vendor.example'])

  const page = await fetch(`${gatewayUrl}${pathname}${search}`, { headers: { accept: 'text/html' } })
  expect(page.status).toBe(200)
  const [, action = ''] = /<form method="post" action="([^"]+)">/.exec(await page.text()) ?? []
  expect(await account()).toMatchObject({ alert_email_confirmed: false })
  const confirm = () =>
    fetch(new URL(action, gatewayUrl), {
      method: 'POST',
      body: new URLSearchParams({ token: searchParams.get('token') ?? '' }),
    })
  expect((await confirm()).status).toBe(200)
  expect(await account()).toMatchObject({ alert_email: 'new@vendor.example', alert_email_confirmed: true })
  expect((await confirm()).status).toBe(400)
  expect(await givenAlert()).toEqual(['new@vendor.example'])
})
