import type { MessageInitShape } from '@bufbuild/protobuf'
import type { GetSpendCapRequest, SpendCapSchema } from '@licensing/proto/billing'
import type { BillingDependencies } from '../dependencies.ts'
import { periodOf } from './fee.ts'
import { spendCapMessage } from './spend-cap.ts'

export async function getSpendCap(
  { sql }: BillingDependencies,
  { accountId }: GetSpendCapRequest,
): Promise<MessageInitShape<typeof SpendCapSchema>> {
  return spendCapMessage(sql, accountId, periodOf(new Date()))
}
