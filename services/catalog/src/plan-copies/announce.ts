import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import type { PlanCopy } from '@licensing/proto/catalog'
import { partsOf } from './plan-copy.ts'

// JetStream takes messages of up to 1 MB.
const mostEventBytes = 512 * 1024

/** Writes the events that bring these copies to licensing, whether or not they can be pushed. */
export async function announce(
  tx: Transaction,
  accountId: string,
  applicationId: string,
  copies: PlanCopy[],
): Promise<void> {
  const parts = partsOf(copies, mostEventBytes)
  await append(
    tx,
    ...parts.map((plans) => ({
      accountId,
      applicationId,
      payload: { case: 'planCopyChanged' as const, value: { plans } },
    })),
  )
}
