import { create, toBinary } from '@bufbuild/protobuf'
import { PlanCopySchema } from '@licensing/proto/catalog'
import type { PlanCopy } from '@licensing/proto/catalog'
import { array, assert, integer, property, string } from 'fast-check'
import { expect, test } from 'vitest'
import { partsOf } from './plan-copy.ts'

const bytesOf = (copies: PlanCopy[]) =>
  copies.reduce((sum, copy) => sum + toBinary(PlanCopySchema, copy).length, 0)

test('copies are split in their order into parts that are not too large, and not too many', () => {
  const copy = string({ maxLength: 300 }).map((id) => create(PlanCopySchema, { id }))
  assert(
    property(array(copy, { maxLength: 50 }), integer({ min: 1, max: 500 }), (copies, mostBytes) => {
      const parts = partsOf(copies, mostBytes)
      expect(parts.flat()).toEqual(copies)
      const tooLarge = parts.filter((part) => part.length > 1 && bytesOf(part) > mostBytes)
      const tooSmall = parts.filter((part, at) => {
        const next = parts[at + 1]?.[0]
        return part.length === 0 || (next && bytesOf([...part, next]) <= mostBytes)
      })
      expect({ tooLarge, tooSmall }).toEqual({ tooLarge: [], tooSmall: [] })
    }),
  )
})
