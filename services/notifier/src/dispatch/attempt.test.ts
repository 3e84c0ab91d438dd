import { expect, test } from 'vitest'
import { deliveryHeaders, signature } from './attempt.ts'

test('the signature of a known body equals that of another implementation', () => {
  // printf '1700000000.{"id":"evt_1"}' | openssl dgst -sha256 -hmac whsec_test
  const expected = 'c89214b5b5da833daed6f0b8c5bb6bd58cea9022bd80ccc78230f3942d632925'
  expect(
    signature({ secret: 'whsec_test', body: Buffer.from('{"id":"evt_1"}'), unixSeconds: 1_700_000_000 }),
  ).toBe(`t=1700000000,v1=${expected}`)
})

test('the headers have the content type, the event and the number of the attempt', () => {
  const signed = { secret: 'whsec_test', body: Buffer.from('{}'), unixSeconds: 1_700_000_000 }
  expect(deliveryHeaders({ ...signed, eventId: 'evt_1', attempt: 3 })).toEqual([
    'Content-Type',
    'application/json',
    'User-Agent',
    'Licensing-Webhooks/1.0',
    'Webhook-Id',
    'evt_1',
    'Webhook-Attempt',
    '3',
    'Webhook-Signature',
    signature(signed),
  ])
})
