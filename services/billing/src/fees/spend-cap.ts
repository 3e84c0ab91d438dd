import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Sql, Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import type { SpendCapSchema } from '@licensing/proto/billing'
import { findStanding, pausePeriod } from './cap-queries.ts'

export interface Reached {
  accountId: string
  applicationId: string
  period: string
  capMinor: bigint
  spentMinor: bigint
}

/** The cap holds from now on; told once in a period, however often it is reached. */
export async function reachCap(tx: Transaction, reached: Reached): Promise<void> {
  const { accountId, applicationId, period, capMinor, spentMinor } = reached
  if (!(await pausePeriod(tx, accountId, period))) return
  await append(tx, {
    accountId,
    applicationId,
    payload: { case: 'spendCapReached', value: { period, capMinor, spentMinor } },
  })
}

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
