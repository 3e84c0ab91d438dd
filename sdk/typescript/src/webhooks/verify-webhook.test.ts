import { createHmac } from 'node:crypto'
import { assert, asyncProperty, integer, nat, string, uint8Array } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { verifyWebhook, WebhookVerificationError } from './verify-webhook.ts'

const SECRET = 'whsec_3mTqE8v5k0bN7cXyRz1wLhJdUoPsAfGiQe2M9nB4tVu'
const OTHER = 'whsec_Zt8KpW2mC6xRj4YvB1nQe7LsHaUdFgOi5M3kTzVwXyN'
const NOW = 1_795_255_200

const event = {
  id: 'evt_01kahz5k00e000000000000001',
  type: 'licence.plan_changed',
  api_version: '2026-11-01',
  created_at: '2026-11-21T10:00:00.000Z',
  sequence: 7,
  account_id: 'acct_01kahz5k00e000000000000001',
  application_id: 'app_01kahz5k00e000000000000001',
  data: { object: { licence_id: 'lic_1', plan_id: 'pln_2', status: 'active' } },
  previous: { plan_id: 'pln_1' },
}
const body = `${JSON.stringify(event)} `

const clock = () => NOW * 1000

function sign(raw: string | Uint8Array, secret = SECRET, t: number | string = NOW): string {
  return createHmac('sha256', secret).update(`${t}.`).update(raw).digest('hex')
}

function header(raw: string | Uint8Array = body, secret = SECRET, t: number | string = NOW): string {
  return `t=${t},v1=${sign(raw, secret, t)}`
}

describe('verifyWebhook', () => {
  it('verifies a signature that openssl made', async () => {
    // printf '%s' '1795255200.{"id":"evt_1","type":"webhook.test","data":{"object":{"ping":true}}}' |
    //   openssl dgst -sha256 -hmac whsec_test
    const raw = '{"id":"evt_1","type":"webhook.test","data":{"object":{"ping":true}}}'
    const v1 = '1b152e1230afa0f32baa8770be2043264b17a41c8ffff8f2d36b2fb8b532da7b'
    await expect(verifyWebhook(raw, `t=${NOW},v1=${v1}`, 'whsec_test', { clock })).resolves.toEqual(
      JSON.parse(raw),
    )
  })

  it.each([
    ['text', body],
    ['bytes', new TextEncoder().encode(body)],
    ['a Buffer', Buffer.from(body)],
    ['an ArrayBuffer', new TextEncoder().encode(body).buffer],
  ])('accepts the raw body as %s', async (_form, raw) => {
    await expect(verifyWebhook(raw, header(), SECRET, { clock })).resolves.toEqual(event)
  })

  it('narrows the event by its type', async () => {
    const received = await verifyWebhook(body, header(), SECRET, { clock })
    if (received.type !== 'licence.plan_changed') throw new Error('another type')
    const { plan_id: from } = received.previous
    const { plan_id: to } = received.data.object
    expect([from, to]).toEqual(['pln_1', 'pln_2'])
  })

  it('accepts a header that a framework split', async () => {
    const given = [`t=${NOW}`, `v1=${sign(body)}`]
    await expect(verifyWebhook(body, given, SECRET, { clock })).resolves.toEqual(event)
  })

  it.each([
    ['malformed_header', undefined],
    ['malformed_header', null],
    ['malformed_header', ''],
    ['signature_mismatch', header(body, OTHER)],
  ])('throws %s for %s', async (reason, given) => {
    const attempt = verifyWebhook(body, given, SECRET, { clock })
    await expect(attempt).rejects.toBeInstanceOf(WebhookVerificationError)
    await expect(attempt).rejects.toMatchObject({ reason, name: 'WebhookVerificationError' })
  })

  describe('a standard signature', () => {
    // The example of the specification of Standard Webhooks, which its libraries verify.
    const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
    const id = 'msg_p5jXN8AQM9LWM0D4loKWxJek'
    const signed = (raw: string) => {
      const mac = createHmac('sha256', Buffer.from(secret.slice(6), 'base64')).update(`${id}.${NOW}.${raw}`)
      return `v1,${mac.digest('base64')}`
    }
    const headersWith = (signature: string, others: object = {}) => ({
      'webhook-id': id,
      'webhook-timestamp': String(NOW),
      'webhook-signature': signature,
      ...others,
    })

    it('is the one of the specification', async () => {
      const raw = '{"test": 2432232314}'
      const at = 1_614_265_330
      const given = headersWith('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=', {
        'webhook-timestamp': String(at),
      })
      // The signature is right, and only the body is not an event.
      await expect(verifyWebhook(raw, given, secret, { clock: () => at * 1000 })).rejects.toMatchObject({
        reason: 'malformed_body',
      })
    })

    it.each([
      ['an object of headers', headersWith(signed(body))],
      ['headers of fetch', new Headers(headersWith(signed(body)))],
    ])('is verified with %s', async (_what, headers) => {
      await expect(verifyWebhook(body, headers, secret, { clock })).resolves.toEqual(event)
    })
  })

  it.each([
    ['an object', { 'webhook-signature': header() }],
    ['names in other letter case', { 'Webhook-Signature': header() }],
    ['a list', { 'webhook-signature': [header()] }],
    ['fetch', new Headers({ 'webhook-signature': header() })],
  ])('finds the default signature among all headers, given as %s', async (_form, headers) => {
    await expect(verifyWebhook(body, headers, SECRET, { clock })).resolves.toEqual(event)
  })

  it('refuses a body in which any one bit was changed', async () => {
    const bytes = new TextEncoder().encode(body)
    await assert(
      asyncProperty(nat({ max: bytes.length - 1 }), integer({ min: 0, max: 7 }), async (index, bit) => {
        const changed = Uint8Array.from(bytes, (byte, at) => (at === index ? byte ^ (1 << bit) : byte))
        await expect(verifyWebhook(changed, header(), SECRET, { clock })).rejects.toMatchObject({
          reason: 'signature_mismatch',
        })
      }),
    )
  })

  it('throws only its own error, whatever the input', async () => {
    await assert(
      asyncProperty(uint8Array(), string(), string(), async (raw, given, secret) => {
        const attempt = verifyWebhook(raw, given, secret, { clock })
        await expect(attempt).rejects.toBeInstanceOf(WebhookVerificationError)
      }),
    )
  })
})
