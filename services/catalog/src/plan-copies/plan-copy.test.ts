import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { reflect } from '@bufbuild/protobuf/reflect'
import { PlanCopySchema, ResolvedEntitlementSchema } from '@licensing/proto/catalog'
import type { PlanCopy } from '@licensing/proto/catalog'
import { array, assert, integer, property, string } from 'fast-check'
import { expect, test } from 'vitest'
import { differs, partsOf } from './plan-copy.ts'

const bytesOf = (copies: PlanCopy[]) =>
  copies.reduce((sum, copy) => sum + toBinary(PlanCopySchema, copy).length, 0)

test('copies are split, in order, into as few parts as the size limit allows', () => {
  const copy = string({ maxLength: 300 }).map((id) => create(PlanCopySchema, { id }))
  assert(
    property(array(copy, { maxLength: 50 }), integer({ min: 1, max: 500 }), (copies, maxBytes) => {
      const parts = partsOf(copies, maxBytes)
      expect(parts.flat()).toEqual(copies)
      const tooLarge = parts.filter((part) => part.length > 1 && bytesOf(part) > maxBytes)
      const tooSmall = parts.filter((part, at) => {
        const next = parts[at + 1]?.[0]
        return part.length === 0 || (next && bytesOf([...part, next]) <= maxBytes)
      })
      expect({ tooLarge, tooSmall }).toEqual({ tooLarge: [], tooSmall: [] })
    }),
  )
})

test('a copy differs if any field except its epoch and version has changed', () => {
  const copy = create(PlanCopySchema, { id: 'pln_1', version: 1n })
  const changed = PlanCopySchema.fields.filter((field) => {
    const other = fromBinary(PlanCopySchema, toBinary(PlanCopySchema, copy))
    const view = reflect(PlanCopySchema, other)
    if (field.fieldKind === 'list') other.entitlements.push(create(ResolvedEntitlementSchema, { key: 'a' }))
    else
      view.set(
        field,
        { bigint: 7n, number: 7, boolean: true }[typeof view.get(field) as 'bigint'] ?? 'changed',
      )
    return differs(copy, other)
  })
  const names = PlanCopySchema.fields.map((field) => field.name)
  expect(changed.map((field) => field.name)).toEqual(
    names.filter((name) => !['version', 'epoch'].includes(name)),
  )
  expect(differs(copy, create(PlanCopySchema, copy))).toBe(false)
})
