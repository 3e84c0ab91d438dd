import { equals, toBinary } from '@bufbuild/protobuf'
import { complete } from '@licensing/grpc/complete'
import { PlanCopySchema } from '@licensing/proto/catalog'
import type { PlanCopy } from '@licensing/proto/catalog'
import type { PlanCopyRow } from './plan-copy-queries.ts'

export function toPlanCopy(row: PlanCopyRow): PlanCopy {
  return complete(PlanCopySchema, {
    id: row.id,
    accountId: row.account_id,
    applicationId: row.application_id,
    status: row.status,
    version: row.version,
    epoch: row.epoch,
    archivedBy: row.archived_by,
    archiveVersion: row.archive_version,
    code: row.code,
    trialDays: row.trial_days ?? undefined,
    expiringNoticeDays: row.expiring_notice_days,
    entitlements: row.entitlements.map(([key, kind, value, fallback]) => ({
      key,
      kind,
      value,
      default: fallback,
    })),
  })
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
