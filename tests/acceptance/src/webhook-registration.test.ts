import { webhookEventTypes } from '@licensing/sdk/webhooks'
import { expect, test } from 'vitest'
import { allRows, expectInvalid, givenStack, givenVendor } from './vendor.ts'

// As in production, no private network is allowed.
const stack = await givenStack({ environment: { WEBHOOK_ALLOWED_CIDRS: '' } })
const { api, app } = await givenVendor(stack)

const register = (url: string, fields: object = {}) =>
  api.post(`${app}/webhook-endpoints`, { body: { url, subscribed_events: '*', ...fields } })

const malformed = [
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
  'https://there-is-no-such-name.invalid/',
]

// One of each kind. The tests of the notifier have every range and every notation.
const notPublic = [
  'https://localhost/',
  'https://localhost./',
  'https://127.0.0.1/',
  'https://2130706433/',
  'https://0x7f.1/',
  'https://0177.0.0.1/',
  'https://0/',
  'https://10.0.0.1/',
  'https://172.31.255.255/',
  'https://192.168.1.1/',
  'https://169.254.169.254/latest/meta-data',
  'https://100.64.0.1/',
  'https://192.0.2.1/',
  'https://224.0.0.1/',
  'https://255.255.255.255/',
  'https://[::]/',
  'https://[::1]/',
  'https://[::ffff:127.0.0.1]/',
  'https://[::ffff:a00:1]/',
  'https://[64:ff9b::10.0.0.1]/',
  'https://[2002:c0a8:101::1]/',
  'https://[2001:db8::1]/',
  'https://[fe80::1]/',
  'https://[fd12:3456::1]/',
  'https://[ff02::1]/',
]

test('only https URLs with public addresses are accepted, in any notation', async () => {
  for (const url of malformed) {
    const answer = await register(url)
    expectInvalid(answer, '/url')
    expect(JSON.stringify(answer.body), url).not.toMatch(/ENOTFOUND|getaddrinfo|EAI_AGAIN/)
  }
  // All these addresses get the same error as a name that does not exist.
  const message =
    'must lead to a public address: its host must resolve to public addresses only, within 3 seconds'
  for (const url of [...notPublic, malformed.at(-1)!]) {
    const { status, body } = await register(url)
    expect([status, body['errors']], url).toEqual([422, [{ pointer: '/url', message }]])
  }
  expect(await allRows(api, `${app}/webhook-endpoints`)).toEqual([])
})

test('a public address is accepted even if no server answers there', async () => {
  for (const url of [
    'https://93.184.215.14/hook',
    'https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]:8443/',
  ]) {
    const body = { url, subscribed_events: '*', status: 'enabled' }
    expect(await register(url)).toMatchObject({ status: 201, body })
  }
})

test('subscribed events are * or known types', async () => {
  const send = (subscribed: unknown) => register('https://93.184.215.14/', { subscribed_events: subscribed })
  const gone = ['licence.revoked,', 'licence.gone', '*,licence.revoked', 'Licence.Revoked']
  for (const bad of ['', ' ', ',', ...gone, ['*'], 7]) expectInvalid(await send(bad), '/subscribed_events')
  const known = webhookEventTypes
  expect((await send(known.join(' , '))).body).toMatchObject({ subscribed_events: known.join(',') })
  expectInvalid(await api.post(`${app}/webhook-endpoints`, { body: {} }), '/url', '/subscribed_events')
  expectInvalid(await register('https://93.184.215.14/', { secret: 'mine' }), '/secret')
})
