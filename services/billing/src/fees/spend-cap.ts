import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Sql } from '@licensing/database/connect'
import type { SpendCapSchema } from '@licensing/proto/billing'
import { findStanding } from './cap-queries.ts'

export async function spendCapMessage(
  sql: Sql,
  accountId: string,
  period: string,
): Promise<MessageInitShape<typeof SpendCapSchema>> {
  const row = await findStanding(sql, accountId, period)
  return {
    period,
    spentMinor: row.spent_minor,
    paused: row.paused,
    ...(row.cap_minor !== null && { capMinor: row.cap_minor }),
    ...(row.currency !== null && { currency: row.currency }),
    ...(row.reached_at !== null && { reachedAt: timestampFromDate(row.reached_at) }),
  }
}
