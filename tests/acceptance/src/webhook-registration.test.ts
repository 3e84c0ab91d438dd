import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectInvalid, givenVendor } from './vendor.ts'
import type { Page } from './vendor.ts'

let stack: Stack

beforeAll(async () => {
  // As in production, no private network is allowed.
  stack = await startStack({ environment: { WEBHOOK_ALLOWED_CIDRS: '' } })
})
afterAll(() => stack[Symbol.asyncDispose]())

const refused = [
  'http://hooks.example.com/',
  'ftp://hooks.example.com/',
  'hooks.example.com',
  '',
  'https://',
  'https://user@93.184.215.14/',
  'https://user:password@93.184.215.14/',
  'https://93.184.215.14/#fragment',
  'https://93.184.215.14/#',
  ` https://93.184.215.14/`,
  `https://93.184.215.14/${'x'.repeat(2048)}`,
  'https://localhost/',
  'https://localhost./',
  'https://127.0.0.1/',
  'https://127.1/',
  'https://2130706433/',
  'https://0x7f000001/',
  'https://0177.0.0.1/',
  'https://0x7f.1/',
  'https://0/',
  'https://0.0.0.0/',
  'https://10.0.0.1/',
  'https://172.16.0.1/',
  'https://172.31.255.255/',
  'https://192.168.1.1/',
  'https://169.254.169.254/latest/meta-data',
  'https://100.64.0.1/',
  'https://192.0.0.1/',
  'https://192.0.2.1/',
  'https://198.18.0.1/',
  'https://198.51.100.1/',
  'https://203.0.113.1/',
  'https://224.0.0.1/',
  'https://240.0.0.1/',
  'https://255.255.255.255/',
  'https://[::]/',
  'https://[::1]/',
  'https://[::ffff:127.0.0.1]/',
  'https://[::ffff:a00:1]/',
  'https://[::127.0.0.1]/',
  'https://[64:ff9b::10.0.0.1]/',
  'https://[64:ff9b:1::1]/',
  'https://[2002:7f00:1::]/',
  'https://[2002:c0a8:101::1]/',
  'https://[2001::1]/',
  'https://[2001:db8::1]/',
  'https://[fe80::1]/',
  'https://[fec0::1]/',
  'https://[fc00::1]/',
  'https://[fd12:3456::1]/',
  'https://[ff02::1]/',
  'https://there-is-no-such-name.invalid/',
]

test('only https URLs with public addresses are accepted, in any notation', async () => {
  const { api, app } = await givenVendor(stack)
  const answers = await Promise.all(
    refused.map(async (url) => ({
      url,
      answer: await api.post(`${app}/webhook-endpoints`, { body: { url, subscribed_events: '*' } }),
    })),
  )
  for (const { url, answer } of answers) {
    expect(answer.status, url).toBe(422)
    expectInvalid(answer, '/url')
    expect(JSON.stringify(answer.body), url).not.toMatch(/ENOTFOUND|getaddrinfo|EAI_AGAIN/)
  }
  // All refused addresses get the same error as a name that does not exist.
  const isAboutAddress = ({ url }: { url: string }) => url >= 'https://0' && !/[@#]|x{9}|93\./.test(url)
  const sentences = answers.filter(isAboutAddress).map(({ answer }) => JSON.stringify(answer.body.errors))
  expect(sentences.length).toBeGreaterThan(30)
  expect([...new Set(sentences)]).toEqual([
    JSON.stringify([
      {
        pointer: '/url',
        message:
          'must lead to a public address: its host must resolve to public addresses only, within 3 seconds',
      },
    ]),
  ])
  expect((await api.get<Page<unknown>>(`${app}/webhook-endpoints`)).body.data).toEqual([])
})

test('a public address is accepted even if no server answers there', async () => {
  const { api, app } = await givenVendor(stack)
  for (const url of [
    'https://93.184.215.14/hook',
    'https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]:8443/',
  ]) {
    const made = await api.post(`${app}/webhook-endpoints`, { body: { url, subscribed_events: '*' } })
    expect(made.status, url).toBe(201)
    expect(made.body).toMatchObject({ url, subscribed_events: '*', status: 'enabled' })
  }
})

test('subscribed events are * or known types', async () => {
  const { api, app } = await givenVendor(stack)
  const send = (subscribed: unknown) =>
    api.post(`${app}/webhook-endpoints`, {
      body: { url: 'https://93.184.215.14/', subscribed_events: subscribed },
    })
  for (const bad of [
    '',
    ' ',
    ',',
    'licence.revoked,',
    'licence.gone',
    '*,licence.revoked',
    'Licence.Revoked',
    ['*'],
    7,
  ]) {
    expectInvalid(await send(bad), '/subscribed_events')
  }
  const known = [
    'licence.created',
    'licence.plan_changed',
    'licence.suspended',
    'licence.reactivated',
    'licence.revoked',
    'licence.expired',
    'licence.retired',
    'licence.downgraded',
    'payment.succeeded',
    'payment.provision_failed',
    'refund.processed',
    'spend_cap.reached',
    'webhook.test',
  ]
  expect((await send(known.join(' , '))).body).toMatchObject({ subscribed_events: known.join(',') })
  expectInvalid(await api.post(`${app}/webhook-endpoints`, { body: {} }), '/url', '/subscribed_events')
  expectInvalid(
    await api.post(`${app}/webhook-endpoints`, {
      body: { url: 'https://93.184.215.14/', subscribed_events: '*', secret: 'mine' },
    }),
    '/secret',
  )
})
