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

  it('returns events of an unknown type', async () => {
    const unknown = JSON.stringify({ ...event, type: 'licence.gilded' })
    await expect(verifyWebhook(unknown, header(unknown), SECRET, { clock })).resolves.toMatchObject({
      type: 'licence.gilded',
    })
  })

  it.each([
    ['the first of several secrets', header(), [SECRET, OTHER]],
    ['the last of several secrets', header(), [OTHER, SECRET]],
    ['one of several signatures', `t=${NOW},v1=${sign(body, OTHER)},v1=${sign(body)}`, SECRET],
    ['a signature beside ones of other schemes', `v0=abc,${header()},v2=def`, SECRET],
    ['a header that a framework split', [`t=${NOW}`, `v1=${sign(body)}`], SECRET],
    ['a header with spaces', `t=${NOW}, v1=${sign(body)}`, SECRET],
  ])('believes %s', async (_what, given, secrets) => {
    await expect(verifyWebhook(body, given, secrets, { clock })).resolves.toEqual(event)
  })

  it.each([
    ['malformed_header', undefined],
    ['malformed_header', null],
    ['malformed_header', ''],
    ['malformed_header', sign(body)],
    ['malformed_header', `v1=${sign(body)}`],
    ['malformed_header', `t=${NOW}`],
    ['malformed_header', `t=now,v1=${sign(body)}`],
    ['malformed_header', `t=${NOW},t=${NOW},v1=${sign(body)}`],
    ['malformed_header', `t=${NOW},v1=${sign(body).toUpperCase()}`],
    ['malformed_header', `t=${NOW},v1=${sign(body).slice(1)}`],
    ['signature_mismatch', header(body, OTHER)],
    ['signature_mismatch', `t=${NOW + 1},v1=${sign(body)}`],
    ['signature_mismatch', header(JSON.stringify(event))],
  ])('throws %s for %s', async (reason, given) => {
    const attempt = verifyWebhook(body, given, SECRET, { clock })
    await expect(attempt).rejects.toBeInstanceOf(WebhookVerificationError)
    await expect(attempt).rejects.toMatchObject({ reason, name: 'WebhookVerificationError' })
  })

  it.each([{ secrets: [] }, { secrets: '' }, { secrets: [SECRET, ''] }])(
    'throws if there is no secret: $secrets',
    async ({ secrets }) => {
      await expect(verifyWebhook(body, header(body, ''), secrets, { clock })).rejects.toMatchObject({
        reason: 'no_secret',
      })
    },
  )

  it.each([
    [-300, undefined],
    [300, undefined],
    [3600, 3600],
  ])('accepts a timestamp %i s from now, with a tolerance of %s', async (offset, toleranceSeconds) => {
    const given = header(body, SECRET, NOW + offset)
    await expect(verifyWebhook(body, given, SECRET, { clock, toleranceSeconds })).resolves.toEqual(event)
  })

  it.each([
    [-301, undefined],
    [301, undefined],
    [-11, 10],
  ])('throws for a timestamp %i s from now, with a tolerance of %s', async (offset, toleranceSeconds) => {
    const given = header(body, SECRET, NOW + offset)
    await expect(verifyWebhook(body, given, SECRET, { clock, toleranceSeconds })).rejects.toMatchObject({
      reason: 'timestamp_outside_tolerance',
    })
  })

  it('throws malformed_body for bytes that are not UTF-8', async () => {
    const raw = Uint8Array.of(0x22, 0xff, 0x22)
    await expect(verifyWebhook(raw, header(raw), SECRET, { clock })).rejects.toMatchObject({
      reason: 'malformed_body',
    })
  })

  it.each(['not json', '[]', 'null', '{"id":1}'])('throws malformed_body for %j', async (raw) => {
    await expect(verifyWebhook(raw, header(raw), SECRET, { clock })).rejects.toMatchObject({
      reason: 'malformed_body',
    })
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
