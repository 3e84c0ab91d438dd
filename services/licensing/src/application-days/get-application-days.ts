import type { MessageInitShape } from '@bufbuild/protobuf'
import { invalid } from '@licensing/grpc/errors'
import type {
  ApplicationDaySchema,
  GetApplicationDaysRequest,
  GetApplicationDaysResponseSchema,
} from '@licensing/proto/licensing'
import type { LicensingDependencies } from '../dependencies.ts'
import { listDays } from './day-queries.ts'
import type { DayRow } from './day-queries.ts'

export async function getApplicationDays(
  { sql }: LicensingDependencies,
  request: GetApplicationDaysRequest,
): Promise<MessageInitShape<typeof GetApplicationDaysResponseSchema>> {
  checkDay('/from', request.from)
  checkDay('/to', request.to)
  const rows = await listDays(sql, request)
  const before = rows.find(({ day }) => day === null)
  return {
    activeBefore: before?.active_change ?? 0n,
    days: rows.flatMap((row) => (row.day === null ? [] : [dayMessage(row, row.day)])),
  }
}

function checkDay(pointer: string, day: string): void {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(day) || Number.isNaN(Date.parse(day))) {
    throw invalid(pointer, 'must be a day, YYYY-MM-DD')
  }
}

function dayMessage(row: DayRow, day: string): MessageInitShape<typeof ApplicationDaySchema> {
  return {
    day,
    issued: row.issued,
    imported: row.imported,
    created: row.created,
    suspended: row.suspended,
    reactivated: row.reactivated,
    revoked: row.revoked,
    expired: row.expired,
    retired: row.retired,
    downgraded: row.downgraded,
    activeChange: row.active_change,
    activationsNew: row.activations_new,
    activationsFreed: row.activations_freed,
    activationsSeen: row.activations_seen,
  }
}
