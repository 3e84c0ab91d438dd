import { readFileSync } from 'node:fs'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { hashOf, readBackendDocument } from '../scripts/backend-document.ts'
import { createLicensingBackend, newIdempotencyKey, type Schemas } from './backend.ts'

const backend = createLicensingBackend({
  baseUrl: 'https://licensing.example.com',
  apiKey: 'lsk_test',
  fetch: async (input, init) => {
    const { method, url, headers } = new Request(input, init)
    return Response.json({ method, url, key: headers.get('idempotency-key') })
  },
})

describe('the client for vendors’ backends', () => {
  it('is typed by the gateway’s document as it stands: else run scripts/generate-backend.ts', () => {
    const types = readFileSync(new URL('backend/gen/api.ts', import.meta.url), 'utf8')
    expect(types.slice(0, types.indexOf('\n'))).toContain(hashOf(readBackendDocument()))
  })

  it('issues with an Idempotency-Key, and answers a licence', async () => {
    const idempotencyKey = newIdempotencyKey()
    const licence = await backend.post('/v1/apps/{app_id}/licences', {
      path: { app_id: 'app_1' },
      body: { external_ref: 'customer-4711', plan_id: 'pln_1' },
      idempotencyKey,
    })
    expectTypeOf(licence).toEqualTypeOf<Schemas['Licence']>()
    expect(licence).toEqual({
      method: 'POST',
      url: 'https://licensing.example.com/v1/apps/app_1/licences',
      key: idempotencyKey,
    })
  })

  it('has a call for what the vendor may do, and none for what only a product may', () => {
    type Posts = Parameters<typeof backend.post>[0]
    expectTypeOf<'/v1/licences/{licence_id}/revoke'>().toExtend<Posts>()
    expectTypeOf<'/v1/activations'>().not.toExtend<Posts>()
    expectTypeOf(backend.rows<'/v1/apps/{app_id}/licences'>).returns.toExtend<
      AsyncGenerator<Schemas['Licence']>
    >()
  })

  it('goes through every list row by row, and types what is no list', () => {
    type Lists = Parameters<typeof backend.rows>[0]
    expectTypeOf<
      | '/v1/licences/{licence_id}/activations'
      | '/v1/licences/{licence_id}/history'
      | '/v1/apps/{app_id}/checkout-sessions'
      | '/v1/apps/{app_id}/sale-events'
      | '/v1/apps/{app_id}/payments'
      | '/v1/apps/{app_id}/refunds'
    >().toExtend<Lists>()
    expectTypeOf(backend.rows<'/v1/apps/{app_id}/checkout-sessions'>).returns.toExtend<
      AsyncGenerator<Schemas['CheckoutSession']>
    >()
    expectTypeOf(backend.get<'/v1/apps/{app_id}/search'>).returns.resolves.toExtend<{
      data: { matched: string; licence: Schemas['Licence'] }[]
    }>()
    expectTypeOf(backend.get<'/v1/apps/{app_id}/metrics'>).returns.resolves.toHaveProperty('points')
    expectTypeOf(backend.get<'/v1/api-keys/self'>).returns.resolves.toExtend<{ account_id: string }>()
  })

  it('makes another Idempotency-Key each time, of a length that the service takes', () => {
    const keys = Array.from({ length: 100 }, newIdempotencyKey)
    expect(new Set(keys).size).toBe(100)
    expect(keys.every((key) => key.length > 0 && key.length <= 255)).toBe(true)
  })
})
