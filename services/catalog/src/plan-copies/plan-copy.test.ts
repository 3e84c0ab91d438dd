import { create, toBinary } from '@bufbuild/protobuf'
import { PlanCopySchema } from '@licensing/proto/catalog'
import type { PlanCopy } from '@licensing/proto/catalog'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { partsOf } from './plan-copy.ts'

const bytesOf = (copies: PlanCopy[]) =>
  copies.reduce((sum, copy) => sum + toBinary(PlanCopySchema, copy).length, 0)

test('copies are split in their order into parts that are not too large, and not too many', () => {
  const copy = fc.string({ maxLength: 300 }).map((id) => create(PlanCopySchema, { id }))
  fc.assert(
    fc.property(fc.array(copy, { maxLength: 50 }), fc.integer({ min: 1, max: 500 }), (copies, mostBytes) => {
      const parts = partsOf(copies, mostBytes)
      expect(parts.flat()).toEqual(copies)
      for (const [at, part] of parts.entries()) {
        expect(part.length).toBeGreaterThan(0)
        if (part.length > 1) expect(bytesOf(part)).toBeLessThanOrEqual(mostBytes)
        const next = parts[at + 1]
        if (next) expect(bytesOf([...part, next[0]!])).toBeGreaterThan(mostBytes)
      }
    }),
  )
})
