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
  it('has the types of the gateway’s current document: if not, run scripts/generate-backend.ts', () => {
    const types = readFileSync(new URL('backend/gen/api.ts', import.meta.url), 'utf8')
    expect(types.slice(0, types.indexOf('\n'))).toContain(hashOf(readBackendDocument()))
  })

  it('issues a licence with an Idempotency-Key, and returns the licence', async () => {
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

  it('has the operations of vendors, and none that only a product may call', () => {
    type Posts = Parameters<typeof backend.post>[0]
    expectTypeOf<'/v1/licences/{licence_id}/revoke'>().toExtend<Posts>()
    expectTypeOf<'/v1/activations'>().not.toExtend<Posts>()
    expectTypeOf(backend.rows<'/v1/apps/{app_id}/licences'>).returns.toExtend<
      AsyncGenerator<Schemas['Licence']>
    >()
  })

  it('has a type for the rows of every list, and for every other answer', () => {
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

  it('creates a different Idempotency-Key each time, of a length that the service accepts', () => {
    const keys = Array.from({ length: 100 }, newIdempotencyKey)
    expect(new Set(keys).size).toBe(100)
    expect(keys.every((key) => key.length > 0 && key.length <= 255)).toBe(true)
  })
})
