import { readConfig } from '@licensing/process/config'
import { Stripe } from 'stripe'
import { describe, expect, test } from 'vitest'
import { billingConfig, stripeSettings } from '../../config.ts'
import { verifySignature } from './webhooks.ts'

const secret = 'whsec_of_the_test'
const body = Buffer.from(JSON.stringify({ id: 'evt_1', object: 'event', type: 'invoice.paid' }, null, 2))
const now = Date.UTC(2026, 10, 21)

function signed(payload: Buffer, options: { at?: number; secret?: string } = {}): string {
  return Stripe.webhooks.generateTestHeaderString({
    payload: payload.toString(),
    secret: options.secret ?? secret,
    timestamp: (options.at ?? now) / 1000,
  })
}

const refused = expect.objectContaining({ code: 'bad_request' })

describe('a signature', () => {
  test('that is valid returns the event', () => {
    expect(verifySignature(body, signed(body), [secret], now)).toMatchObject({ id: 'evt_1' })
  })

  test.each([-300_000, 300_000])('is accepted up to 300 seconds from now (%d ms)', (off) => {
    expect(verifySignature(body, signed(body, { at: now + off }), [secret], now)).toBeDefined()
  })

  test.each([-301_000, 301_000, 86_400_000])('is refused further in the past or future (%d ms)', (off) => {
    const header = signed(body, { at: now + off })
    expect(() => verifySignature(body, header, [secret], now)).toThrow(refused)
  })

  test('may be made with any of the secrets, while a secret is being replaced', () => {
    expect(verifySignature(body, signed(body), ['whsec_new', secret], now)).toBeDefined()
    const twice = `${signed(body, { secret: 'whsec_old' })},${signed(body).split(',')[1]}`
    expect(verifySignature(body, twice, [secret], now)).toBeDefined()
  })

  const v1 = signed(body).split(',')[1]!
  test.each([
    ['an empty header', ''],
    ['of another secret', signed(body, { secret: 'whsec_other' })],
    ['only of another scheme', signed(body).replace('v1=', 'v0=')],
    ['without a time', v1],
    ['with a time that is no number', `t=now,${v1}`],
    ['that is no header', 'nonsense'],
    ['with a second time', `${signed(body)},t=${now / 1000}0`],
    ['of NUL characters', '\0\0'],
  ])('is refused: %s', (_, header) => {
    expect(() => verifySignature(body, header, [secret], now)).toThrow(refused)
  })

  test('of other bytes is refused, even if they have the same meaning', () => {
    const reserialized = Buffer.from(JSON.stringify(JSON.parse(body.toString())))
    expect(() => verifySignature(reserialized, signed(body), [secret], now)).toThrow(refused)
    const tampered = Buffer.from(body.toString().replace('evt_1', 'evt_2'))
    expect(() => verifySignature(tampered, signed(body), [secret], now)).toThrow(refused)
  })

  test('of a thin event is refused with what to set at the processor', () => {
    const thin = Buffer.from(
      '{"id":"evt_1","object":"v2.core.event","type":"v1.billing.meter.no_meter_found"}',
    )
    expect(() => verifySignature(thin, signed(thin), [secret], now)).toThrow(
      expect.objectContaining({
        code: 'bad_request',
        message: expect.stringMatching(/thin event.*snapshot/),
      }),
    )
    expect(() => verifySignature(thin, signed(body), [secret], now)).toThrow(/signature does not match/)
  })

  test.each([
    '',
    'not json',
    'null',
    '[]',
    '{}',
    '{"id":1,"type":"x"}',
    '"evt_1"',
    '{"id":"evt_\\u0000","type":"invoice.paid"}',
    '{"id":"evt_\\ud83d","type":"invoice.paid"}',
    `{"id":"${'e'.repeat(256)}","type":"invoice.paid"}`,
    '{"id":"evt_1","type":"\\u0000"}',
    '{"id":"evt_1","type":"invoice.paid","account":1}',
    '{"id":"evt_1","type":"invoice.paid","account":{"id":"acct_1"}}',
    '{"id":"evt_1","type":"invoice.paid","account":["acct_1"]}',
    '{"id":"evt_1","type":"invoice.paid","account":true}',
    '{"id":"evt_1","type":"invoice.paid","account":""}',
    '{"id":"evt_1","type":"invoice.paid","account":"acct_\\u0000"}',
  ])('of a body that is no event is refused: %s', (text) => {
    const payload = Buffer.from(text)
    expect(() => verifySignature(payload, signed(payload), [secret], now)).toThrow(refused)
  })

  test('is refused if no secret is configured', () => {
    const blank = signed(body, { secret: ' ' })
    expect(() => verifySignature(body, blank, [], now)).toThrow(
      expect.objectContaining({ code: 'unavailable' }),
    )
    expect(() => verifySignature(body, blank, [''], now)).toThrow(refused)
  })
})

test('STRIPE_WEBHOOK_SECRET may have a new secret beside the old one; an empty entry is no secret', () => {
  const environment = {
    GRPC_ADDRESS: 'a:1',
    DATABASE_URL: 'postgres://a/b',
    NATS_URL: 'nats://a',
    CATALOG_ADDRESS: 'a:1',
    LICENSING_ADDRESS: 'a:1',
    CALLER_CHECK: 'off',
  }
  const secretsOf = (text: string) =>
    stripeSettings(readConfig(billingConfig, { ...environment, STRIPE_WEBHOOK_SECRET: text })).webhookSecrets
  const both = ['whsec_new', 'whsec_old']
  expect(secretsOf('whsec_new,whsec_old')).toEqual(both)
  expect(secretsOf(' whsec_new , whsec_old,')).toEqual(both)
  expect(secretsOf('whsec_new')).toEqual(['whsec_new'])
})
