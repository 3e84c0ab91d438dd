import { equals, toBinary } from '@bufbuild/protobuf'
import { messageOf } from '@licensing/grpc/fields'
import { PlanCopySchema } from '@licensing/proto/catalog'
import type { PlanCopy } from '@licensing/proto/catalog'
import type { PlanCopyRow } from './plan-copy-queries.ts'

export function toPlanCopy(row: PlanCopyRow): PlanCopy {
  const entitlements = row.entitlements.map(([key, kind, value, fallback]) => ({
    key,
    kind,
    value,
    default: fallback,
  }))
  return messageOf(PlanCopySchema, { ...row, entitlements })
}

/** Whether licensing needs the second copy of a plan after it has the first. */
export function differs(before: PlanCopy, after: PlanCopy): boolean {
  return !equals(PlanCopySchema, { ...before, version: 0n, epoch: 0n }, { ...after, version: 0n, epoch: 0n })
}

/** Splits copies, in order, into parts of at most `maxBytes`. A larger copy is a part of its own. */
export function partsOf(copies: PlanCopy[], maxBytes: number): PlanCopy[][] {
  const parts: PlanCopy[][] = []
  let bytesLeft = 0
  for (const copy of copies) {
    const size = toBinary(PlanCopySchema, copy).length
    if (parts.length === 0 || size > bytesLeft) {
      parts.push([])
      bytesLeft = maxBytes
    }
    parts.at(-1)!.push(copy)
    bytesLeft -= size
  }
  return parts
}
