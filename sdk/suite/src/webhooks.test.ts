import { createHmac, randomBytes } from 'node:crypto'
import { afterAll, describe, expect, test } from 'vitest'
import { Driver } from './driver.ts'
import { languages } from './languages.ts'

const now = '2026-11-21T10:00:00.000Z'
const seconds = Date.parse(now) / 1000
const event = { id: 'evt_1', type: 'licence.created', data: { object: { note: 'é 😀' } }, previous: null }
// A parsed and serialised copy would have no blanks, and another escape.
const body = `{ "id": "evt_1", "type": "licence.created", "data": { "object": { "note": "\\u00e9 😀" } }, "previous": null }\n`
const secret = 'whsec_3mTqE8v5k0bN7cXyRz1wLhJdUoPsAfGiQe2M9nB4tVu'
const other = 'whsec_Zt8KpW2mC6xRj4YvB1nQe7LsHaUdFgOi5M3kTzVwXyN'

interface Signing {
  readonly by?: string
  readonly at?: number | string
  readonly of?: string | Buffer
}

function v1({ by = secret, at = seconds, of = body }: Signing = {}): string {
  return createHmac('sha256', by).update(`${at}.`).update(of).digest('hex')
}

function signature(signing: Signing = {}): string {
  return `t=${signing.at ?? seconds},v1=${v1(signing)}`
}

const standardSecret = `whsec_${randomBytes(32).toString('base64')}`
const otherStandard = `whsec_${randomBytes(32).toString('base64')}`
const shortSecret = `whsec_${randomBytes(24).toString('base64')}`

function standardSignature({ by = standardSecret, at = seconds, of = body }: Signing = {}, id = 'evt_1') {
  const key = Buffer.from(by.slice('whsec_'.length), 'base64')
  return `v1,${createHmac('sha256', key).update(`${id}.${at}.`).update(of).digest('base64')}`
}

function standard(signing: Signing = {}, changes: Record<string, string | undefined> = {}) {
  return {
    'webhook-id': 'evt_1',
    'webhook-timestamp': String(signing.at ?? seconds),
    'webhook-signature': standardSignature(signing),
    ...changes,
  }
}

interface Delivery {
  readonly signature?: string
  readonly headers?: object
  readonly body?: string | Buffer
  readonly secrets?: string | readonly string[]
  readonly tolerance_seconds?: number
}

const forged = { by: standardSecret, of: `${body} ` }
type Case = [title: string, delivery: Delivery, reason?: string]

const deliveries: readonly Case[] = [
  ['a delivery as it is sent', { signature: signature() }],
  ['all of its headers', { headers: { 'Webhook-Signature': signature(), 'Webhook-Id': 'evt_1' } }],
  ['a second secret', { signature: signature(), secrets: [other, secret] }],
  ['a second signature, during a rotation', { signature: `${signature({ by: other })},v1=${v1()}` }],
  ['blanks and unknown parts in the header', { signature: ` t=${seconds} , v0=x, v1=${v1()} , v2=y` }],
  ['a delivery of minutes ago', { signature: signature({ at: seconds - 299 }) }],
  ['a longer tolerance', { signature: signature({ at: seconds - 900 }), tolerance_seconds: 1_000 }],
  ['an unknown type', ...unknownType()],
  ['no secret', { signature: signature(), secrets: [] }, 'no_secret'],
  ['an empty secret', { signature: signature(), secrets: [secret, ''] }, 'no_secret'],
  ['no secret and no header', { secrets: '' }, 'no_secret'],
  ['no header', {}, 'malformed_header'],
  ['no such header', { headers: { 'content-type': 'application/json' } }, 'malformed_header'],
  ['an empty header', { signature: '' }, 'malformed_header'],
  ['no time', { signature: `v1=${v1()}` }, 'malformed_header'],
  ['two times', { signature: `t=${seconds},t=${seconds},v1=${v1()}` }, 'malformed_header'],
  ['a time that is no number', { signature: `t=1e9,v1=${v1({ at: '1e9' })}` }, 'malformed_header'],
  ['a time in other digits', { signature: `t=١٢٣,v1=${v1({ at: '١٢٣' })}` }, 'malformed_header'],
  ['no signature', { signature: `t=${seconds}` }, 'malformed_header'],
  ['a signature in capitals', { signature: `t=${seconds},v1=${v1().toUpperCase()}` }, 'malformed_header'],
  ['a short signature', { signature: `t=${seconds},v1=${v1().slice(2)}` }, 'malformed_header'],
  ['another secret', { signature: signature({ by: other }) }, 'signature_mismatch'],
  ['another body', { signature: signature(), body: JSON.stringify(event) }, 'signature_mismatch'],
  ['another time', { signature: `t=${seconds + 1},v1=${v1()}` }, 'signature_mismatch'],
  ['an old delivery', { signature: signature({ at: seconds - 301 }) }, 'timestamp_outside_tolerance'],
  ['a future delivery', { signature: signature({ at: seconds + 301 }) }, 'timestamp_outside_tolerance'],
  ['a time with 15 digits', { signature: signature({ at: '9'.repeat(15) }) }, 'timestamp_outside_tolerance'],
  ...[
    '',
    'no JSON',
    '[]',
    'null',
    '{}',
    '{"id":1,"type":"x","data":{}}',
    '{"id":"1","type":"x","data":null}',
  ].map((of): Case => [`the body ${of}`, { signature: signature({ of }), body: of }, 'malformed_body']),
  ['bytes that are not UTF-8', ...notUtf8(), 'malformed_body'],

  ['a standard delivery', { headers: standard(), secrets: standardSecret }],
  ['a standard delivery and a second secret', { headers: standard(), secrets: [secret, standardSecret] }],
  [
    'a standard delivery and a secret without its prefix',
    { headers: standard(), secrets: standardSecret.slice('whsec_'.length) },
  ],
  [
    'a standard delivery and a secret of 24 bytes',
    { headers: standard({ by: shortSecret }), secrets: shortSecret },
  ],
  ...['', '$', standardSecret.slice(6, -1), `${standardSecret.slice(6)}=`].map((text): Case => [
    `a standard delivery and the secret whsec_${text.replaceAll(/\w{9,}/g, '…')}`,
    { headers: standard(), secrets: `whsec_${text}` },
    'signature_mismatch',
  ]),
  [
    'a standard delivery with two signatures',
    {
      headers: standard(
        {},
        { 'webhook-signature': `${standardSignature({ by: otherStandard })} v1a,x ${standardSignature()}` },
      ),
      secrets: standardSecret,
    },
  ],
  [
    'a standard delivery with names of headers in capitals',
    {
      headers: {
        'WEBHOOK-ID': 'evt_1',
        'Webhook-Timestamp': String(seconds),
        'Webhook-Signature': standardSignature(),
      },
      secrets: standardSecret,
    },
  ],
  [
    'a standard delivery without its other headers',
    { signature: standardSignature(), secrets: standardSecret },
    'malformed_header',
  ],
  [
    'a standard delivery without an id',
    { headers: standard({}, { 'webhook-id': undefined }), secrets: standardSecret },
    'malformed_header',
  ],
  [
    'a standard delivery without a time',
    { headers: standard({}, { 'webhook-timestamp': undefined }), secrets: standardSecret },
    'malformed_header',
  ],
  [
    'a standard delivery with a time that is no number',
    { headers: standard({ at: '1e9' }), secrets: standardSecret },
    'malformed_header',
  ],
  [
    'a standard delivery with a short signature',
    { headers: standard({}, { 'webhook-signature': 'v1,AAAA' }), secrets: standardSecret },
    'malformed_header',
  ],
  [
    'a standard delivery and another secret',
    { headers: standard(), secrets: otherStandard },
    'signature_mismatch',
  ],
  [
    'a standard delivery and a secret of the other kind',
    { headers: standard(), secrets: secret },
    'signature_mismatch',
  ],
  [
    'a standard delivery with another body',
    { headers: standard(forged), secrets: standardSecret },
    'signature_mismatch',
  ],
  [
    'a standard delivery with another id',
    { headers: standard({}, { 'webhook-id': 'evt_2' }), secrets: standardSecret },
    'signature_mismatch',
  ],
  [
    'an old standard delivery',
    { headers: standard({ at: seconds - 301 }), secrets: standardSecret },
    'timestamp_outside_tolerance',
  ],
]

function unknownType(): [Delivery] {
  const of = '{"id":"evt_1","type":"licence.invented","data":{}}'
  return [{ signature: signature({ of }), body: of }]
}

function notUtf8(): [Delivery] {
  const of = Buffer.concat([
    Buffer.from('{"id":"1","type":"'),
    Buffer.from([0xff]),
    Buffer.from('","data":{}}'),
  ])
  return [{ signature: signature({ of }), body: of }]
}

describe.each(languages)('$name verifies a webhook', async (language) => {
  const driver = await Driver.start(language)
  afterAll(() => driver[Symbol.asyncDispose]())

  test.each([...deliveries])('with %s', async (_, delivery, reason) => {
    const { body: sent = body, secrets = secret, ...others } = delivery
    const body_base64 = Buffer.from(sent).toString('base64')
    const argument = { ...others, body_base64, secrets, now }
    const { id: _id, ...answer } = await driver.ask('verify_webhook', { argument })
    expect(answer).toEqual(reason === undefined ? { event: JSON.parse(String(sent)) } : { reason })
  })
})
