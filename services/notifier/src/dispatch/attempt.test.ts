import { expect, test } from 'vitest'
import { deliveryHeaders } from './attempt.ts'

const usual = {
  signature: 'default' as const,
  secrets: ['whsec_test'],
  eventId: 'evt_1',
  body: Buffer.from('{}'),
  unixSeconds: 1_700_000_000,
  attempt: 3,
  headers: [] as string[],
}

function headersOf(given: Partial<Parameters<typeof deliveryHeaders>[0]>): Record<string, string> {
  const list = deliveryHeaders({ ...usual, ...given })
  return Object.fromEntries(list.flatMap((name, at) => (at % 2 === 0 ? [[name, list[at + 1]!]] : [])))
}

test('the signature of a known body equals that of another implementation', () => {
  // printf '1700000000.{"id":"evt_1"}' | openssl dgst -sha256 -hmac whsec_test
  const expected = 'c89214b5b5da833daed6f0b8c5bb6bd58cea9022bd80ccc78230f3942d632925'
  const headers = headersOf({ secrets: ['whsec_test'], body: Buffer.from('{"id":"evt_1"}') })
  expect(headers).toMatchObject({ 'Webhook-Signature': `t=1700000000,v1=${expected}` })
})

test('the headers have the content type, the event and the number of the attempt', () => {
  const headers = deliveryHeaders({ ...usual, headers: ['X-Own', 'own'] })
  expect(headers).toEqual([
    'Content-Type',
    'application/json',
    'User-Agent',
    'Licensing-Webhooks/1.0',
    'Webhook-Id',
    'evt_1',
    'Webhook-Attempt',
    '3',
    'Webhook-Signature',
    expect.stringMatching(/^t=1700000000,v1=[0-9a-f]{64}$/),
    'X-Own',
    'own',
  ])
})

test('during a rotation there is a signature for each secret, the new one first', () => {
  const secrets = ['whsec_new', 'whsec_former']
  const [one, other] = secrets.map((secret) =>
    headersOf({ secrets: [secret] })['Webhook-Signature']!.slice(13),
  )
  expect(headersOf({ secrets })['Webhook-Signature']).toBe(`t=1700000000,${one},${other}`)
})

test('a standard signature equals that of another implementation, and is the only one', () => {
  // The example of the specification of Standard Webhooks.
  const { 'Webhook-Signature': signature, ...headers } = headersOf({
    signature: 'standard',
    secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'whsec_AAAA'],
    eventId: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    unixSeconds: 1_614_265_330,
    body: Buffer.from('{"test": 2432232314}'),
  })
  expect(signature).toMatch(/^v1,g0hM9SsE\+OTPJTGt\/tmIKtSyZlE3uFJELVlNIOLJ1OE= v1,[A-Za-z0-9+/]{43}=$/)
  expect(headers).toMatchObject({
    'Webhook-Id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'Webhook-Timestamp': '1614265330',
  })
})
