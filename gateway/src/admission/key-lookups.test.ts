import { create } from '@bufbuild/protobuf'
import { ServiceError } from '@licensing/grpc/errors'
import { AuthenticateKeysResponseSchema } from '@licensing/proto/catalog'
import { expect, test } from 'vitest'
import { KeyLookups } from './key-lookups.ts'

const hashOf = (at: number) => Buffer.from(`key ${at}`).toString('base64')

test('while one address has the maximum number of waiting unknown keys, a further key is refused; later it is looked up', async () => {
  const asked = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  const lookups = new KeyLookups({
    // Catalog knows none of these keys.
    authenticateKeys: async ({ keyHashes = [] }) => {
      asked.resolve()
      await gate.promise
      return create(AuthenticateKeysResponseSchema, { answers: keyHashes.map(() => ({})) })
    },
  })
  const lookUp = async (at: number, caller = '10.0.0.1') => {
    try {
      return (await lookups.lookUp(caller, hashOf(at))) === undefined ? 'unknown' : 'known'
    } catch (error) {
      if (error instanceof ServiceError) return error.code
      throw error
    }
  }
  const first = lookUp(0)
  await asked.promise
  const flood = Array.from({ length: 2_050 }, (_, at) => lookUp(1 + at))
  expect(await Promise.all(flood.slice(2_000))).toEqual(Array(50).fill('rate_limited'))
  const other = lookUp(1, '10.0.0.2')
  gate.resolve()
  expect(await first).toBe('unknown')
  expect(await Promise.all(flood.slice(0, 2_000))).toEqual(Array(2_000).fill('unknown'))
  expect(await other).toBe('unknown')
  expect(await lookUp(2_051)).toBe('unknown')
})
