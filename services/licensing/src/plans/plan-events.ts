import type { Transaction } from '@licensing/database/connect'
import type { Received } from '@licensing/events/consumer-options'
import { applyPlanCopies } from './apply-plan-copies.ts'

/** Takes in catalog's events: repairs what a push has missed, archives included. */
export async function takePlanEvents(tx: Transaction, events: Received[]): Promise<void> {
  const copies = events.flatMap(({ event }) =>
    event.payload.case === 'planCopyChanged' ? event.payload.value.plans : [],
  )
  await applyPlanCopies(tx, copies)
}
