import { partitionOf } from '@licensing/events/partitions'
import { eventually } from '@licensing/test-support/poll'
import { expect } from 'vitest'
import type { Harness } from './harness.ts'
import type { Vendor } from './vendor.ts'
import { ledgerOf, licencesOf, refundsOf } from './shop.ts'

/** The result of a story, without the ids and times that differ from run to run. */
export interface Outcome {
  licences: string[]
  ledger: string[]
  refunds: string[]
  sent: string[]
}

export async function outcomeOf(
  harness: Pick<Harness, 'billing' | 'licensing' | 'events'>,
  vendor: Vendor,
): Promise<Outcome> {
  const licences = await licencesOf(harness, vendor)
  const refunds = await refundsOf(harness, vendor)
  return {
    licences: licences.map((licence) => `${licence.status} ${licence.statusReason ?? ''}`).sort(),
    ledger: (await ledgerOf(harness, vendor)).sort(),
    refunds: refunds.map((refund) => `${refund.lane} ${refund.amount} ${refund.status}`).sort(),
    sent: harness.events
      .raw(vendor.accountId)
      .flatMap(({ payload }) =>
        payload.case === 'vendorAlert' ? [`alert ${payload.value.subject.slice(0, 15)}`] : [],
      )
      .concat(
        harness.events
          .of(vendor.accountId)
          .map((event) =>
            [event.type, event['lane'], event['amount'], event['reason']].filter(Boolean).join(' '),
          ),
      )
      .sort(),
  }
}

/** Resolves when all events of this vendor are handled and their effects are sent. */
export async function quiet(
  { sql, licensingSql, events }: Pick<Harness, 'sql' | 'licensingSql' | 'events'>,
  vendor: Vendor,
): Promise<void> {
  const none = (count: () => Promise<{ waiting: number }[]>) =>
    eventually(async () => expect((await count())[0]!.waiting).toBe(0), { timeoutMs: 60_000 })
  await none(
    () => sql`
      select count(*)::int as waiting from processor_events
      where handled_at is null and not parked and merchant = ${`stripe:${vendor.connectedAccount}`}`,
  )
  await none(
    () => sql`
      select (
        select count(*) from purchases
        where account_id = ${vendor.accountId} and (decide_at is not null or send_at is not null)
      )::int + (
        select count(*) from processor_questions
        where account_id = ${vendor.accountId} and next_at is not null and attempts < 3
      )::int as waiting`,
  )
  const partition = partitionOf(vendor.accountId)
  for (const each of [sql, licensingSql]) {
    await none(() => each`select count(*)::int as waiting from outbox where partition = ${partition}`)
  }
  await events.caughtUp()
}
